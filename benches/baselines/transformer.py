"""A training step of a Transformer encoder in PyTorch, for `cargo bench --bench transformer`; the protocol is in
protocol.py.

The layers are PyTorch's own, with the activation and the order of Burn's encoder: GELU, and normalization last. There
is neither a mask nor dropout, so that attention is PyTorch's `scaled_dot_product_attention`.
"""

import protocol


def make(setup):
    """`setup`: candidate, device, batch, tokens, layers, size, heads and feed_forward."""
    import torch
    from torch import nn

    finished = protocol.finished_on(setup["device"])
    torch.set_default_device(setup["device"])
    torch.manual_seed(0)
    size = setup["size"]
    layer = nn.TransformerEncoderLayer(
        size, setup["heads"], setup["feed_forward"], dropout=0.0, activation="gelu", batch_first=True
    )
    encoder = nn.TransformerEncoder(layer, setup["layers"], enable_nested_tensor=False)
    shape = (setup["batch"], setup["tokens"], size)
    inputs, output_gradient = torch.randn(shape, requires_grad=True), torch.randn(shape)
    leaves = [inputs, *encoder.parameters()]
    if setup["candidate"] == "torch.compile":
        encoder = torch.compile(encoder, fullgraph=True, dynamic=False)
    return finished(lambda: torch.autograd.grad((encoder(inputs) * output_gradient).sum(), leaves))


if __name__ == "__main__":
    protocol.serve(make)
