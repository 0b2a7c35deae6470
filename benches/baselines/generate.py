"""A step of generation in PyTorch, for `cargo bench --bench generate`; the protocol is in protocol.py.

Keys and values are written into space that is there, and `scaled_dot_product_attention` reads what is filled of it.
"""

import protocol


def make(setup):
    """`setup`: device, batch, heads, size and keys, those that are there before the step."""
    import torch
    from torch.nn import functional

    finished = protocol.finished_on(setup["device"])
    torch.set_default_device(setup["device"])
    torch.manual_seed(0)
    batch, heads, size, count = (setup[name] for name in ("batch", "heads", "size", "keys"))
    keys, values = (torch.randn(batch, heads, 2 * count, size) for _ in range(2))
    query, key, value = (torch.randn(batch, heads, 1, size) for _ in range(3))

    def step():
        with torch.inference_mode():
            keys[:, :, count] = key[:, :, 0]
            values[:, :, count] = value[:, :, 0]
            filled = slice(count + 1)
            return functional.scaled_dot_product_attention(query, keys[:, :, filled], values[:, :, filled])

    return finished(step)


if __name__ == "__main__":
    protocol.serve(make)
