"""Generation with a language model in PyTorch, for `cargo bench --bench language_model`; the protocol is in protocol.py.

Layers as GPT-2 has them; keys and values are written into space that is there, and `scaled_dot_product_attention` reads
what is filled of it.
"""

import protocol


def make(setup):
    """`setup`: device, batch, tokens, layers, size, heads, feed_forward and vocab."""
    import torch
    from torch import nn
    from torch.nn import functional

    finished = protocol.finished_on(setup["device"])
    torch.set_default_device(setup["device"])
    torch.manual_seed(0)
    batch, tokens, size, heads = (setup[name] for name in ("batch", "tokens", "size", "heads"))

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norms = nn.ModuleList(nn.LayerNorm(size) for _ in range(2))
            self.projection, self.output = nn.Linear(size, 3 * size), nn.Linear(size, size)
            self.input, self.hidden = nn.Linear(size, setup["feed_forward"]), nn.Linear(setup["feed_forward"], size)

        def forward(self, rows, at, keys, values):
            projected = self.projection(self.norms[0](rows)).view(batch, 3, heads, size // heads)
            keys[:, :, at], values[:, :, at] = projected[:, 1], projected[:, 2]
            query, filled = projected[:, 0].unsqueeze(2), slice(at + 1)
            context = functional.scaled_dot_product_attention(query, keys[:, :, filled], values[:, :, filled])
            rows = rows + self.output(context.reshape(batch, 1, size))
            return rows + self.hidden(functional.gelu(self.input(self.norms[1](rows))))

    embedding, positions = nn.Embedding(setup["vocab"], size), nn.Embedding(tokens, size)
    layers, norm = nn.ModuleList(Layer() for _ in range(setup["layers"])), nn.LayerNorm(size)

    def generate():
        with torch.inference_mode():
            space = (batch, heads, tokens, size // heads)
            caches = [(torch.zeros(space), torch.zeros(space)) for _ in layers]
            token, text = torch.ones(batch, 1, dtype=torch.long), []
            for at in range(tokens):
                rows = embedding(token) + positions.weight[at]
                for layer, (keys, values) in zip(layers, caches):
                    rows = layer(rows, at, keys, values)
                token = functional.linear(norm(rows), embedding.weight).argmax(-1)
                text.append(token.tolist())
            return text

    return finished(generate)


if __name__ == "__main__":
    protocol.serve(make)
