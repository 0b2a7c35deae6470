"""Embeddings of sentences, for `cargo bench --bench sentences`; the protocol is in protocol.py.

ONNX Runtime has the model that `torch.onnx` exports, with all of its optimizations.
"""

import os
import tempfile

import protocol


def make(setup):
    """`setup`: candidate, folder of a BERT, and batches of tokens."""
    import torch
    from transformers import BertModel

    protocol.finished_on("cpu")
    model = BertModel.from_pretrained(setup["folder"], add_pooling_layer=False).eval()

    def padded(texts):
        longest = max(map(len, texts))
        rows = [text + [0] * (longest - len(text)) for text in texts]
        mask = [[1] * len(text) + [0] * (longest - len(text)) for text in texts]
        return torch.tensor(rows), torch.tensor(mask)

    class Embed(torch.nn.Module):
        def forward(self, tokens, mask):
            features = model(input_ids=tokens, attention_mask=mask).last_hidden_state
            return torch.nn.functional.normalize((features * mask[..., None]).sum(1), dim=1)

    embed = Embed()
    if setup["candidate"] == "torch.compile":
        embed = torch.compile(embed, dynamic=True)
    if setup["candidate"] == "ONNX Runtime":
        embed = in_onnx_runtime(embed, padded([[101, 102], [101]]))

    def call():
        with torch.inference_mode():
            for texts in setup["batches"]:
                embed(*padded(texts))

    return call


def in_onnx_runtime(embed, example):
    import onnxruntime
    import torch

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ["OMP_NUM_THREADS"])
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "model.onnx")
        sizes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("rows")}
        torch.onnx.export(embed, example, file, input_names=["tokens", "mask"], dynamo=True,
                          dynamic_shapes=(sizes, sizes))
        session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    return lambda tokens, mask: session.run(None, {"tokens": tokens.numpy(), "mask": mask.numpy()})


if __name__ == "__main__":
    protocol.serve(make)
