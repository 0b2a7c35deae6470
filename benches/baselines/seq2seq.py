"""A training step of the sequence-to-sequence model in PyTorch, for `cargo bench --bench seq2seq`; the protocol is in
protocol.py. data_parallel.py trains it on several processes.

The model is that of crates/attention-seq2seq, as one writes it in PyTorch. All sequences are whole, so there is neither
padding nor a mask here; ours has the mask.
"""

import os

import protocol


def make(setup):
    """`setup`: candidate, and sizes as the bench names them."""
    import torch
    from torch import nn

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    torch.manual_seed(0)
    sizes = setup["sizes"]
    embedding, hidden, layers = sizes["embedding"], sizes["hidden"], sizes["layers"]

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.source_embedding = nn.Embedding(sizes["source_vocab"], embedding)
            self.encoder = nn.GRU(
                embedding, hidden // 2, layers, batch_first=True, bidirectional=True
            )
            self.start = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(layers))
            self.target_embedding = nn.Embedding(sizes["target_vocab"], embedding)
            self.w_q = nn.Linear(hidden, hidden, bias=False)
            self.w_k = nn.Linear(hidden, hidden, bias=False)
            self.w_v = nn.Linear(hidden, 1, bias=False)
            inputs = [embedding + hidden] + [hidden] * (layers - 1)
            self.cells = nn.ModuleList(nn.GRUCell(size, hidden) for size in inputs)
            self.output = nn.Linear(2 * hidden, sizes["target_vocab"])

        def forward(self, source, previous):
            states, last = self.encoder(self.source_embedding(source))
            keys = self.w_k(states)
            ends = last.unflatten(0, (layers, 2)).transpose(1, 2).flatten(2)
            hidden_states = [torch.tanh(start(end)) for start, end in zip(self.start, ends)]
            features = []
            for token in self.target_embedding(previous).unbind(1):
                hidden_states, feature = self.step(token, hidden_states, keys, states)
                features.append(feature)
            return self.output(torch.stack(features, 1))

        def step(self, token, hidden_states, keys, values):
            query = self.w_q(hidden_states[-1]).unsqueeze(1)
            scores = self.w_v(torch.tanh(query + keys)).squeeze(-1)
            context = torch.bmm(torch.softmax(scores, -1).unsqueeze(1), values).squeeze(1)
            below = torch.cat([token, context], 1)
            after = []
            for cell, state in zip(self.cells, hidden_states):
                below = cell(below, state)
                after.append(below)
            return after, torch.cat([below, context], 1)

    model = Model()
    if setup["candidate"] == "torch.compile":
        # A step, and not the loop over them: unrolled, it takes minutes to compile.
        model.step = torch.compile(model.step, fullgraph=True, dynamic=False)
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    source = torch.randint(4, sizes["source_vocab"], (sizes["batch"], sizes["source_len"]))
    previous = torch.randint(4, sizes["target_vocab"], (sizes["batch"], sizes["target_len"]))
    target = torch.randint(4, sizes["target_vocab"], (sizes["batch"], sizes["target_len"]))

    def call():
        optimizer.zero_grad()
        logits = model(source, previous)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    return call


if __name__ == "__main__":
    protocol.serve(make)
