"""A recurrent layer in PyTorch, for `cargo bench --bench recurrent`; the protocol is in protocol.py."""

import os

import protocol


def make(setup):
    """`setup`: cell ("GRU" or "LSTM"), pass, batch, steps and size, of inputs and states alike. `torch.compile` leaves
    the layer as it is, an operation of PyTorch's own."""
    import torch
    from torch import nn

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    torch.manual_seed(0)
    size = setup["size"]
    shape = (setup["batch"], setup["steps"], size)
    layer = getattr(nn, setup["cell"])(size, size, batch_first=True)
    inputs, output_gradient = torch.randn(shape, requires_grad=True), torch.randn(shape)
    leaves = [inputs, *layer.parameters()]

    if setup["pass"] == "forward":
        return torch.no_grad()(lambda: layer(inputs))
    return lambda: torch.autograd.grad((layer(inputs)[0] * output_gradient).sum(), leaves)


if __name__ == "__main__":
    protocol.serve(make)
