"""The median time of a training step of seq2seq.py's model, for `cargo bench --bench machines`: on one process, or on the
processes that `torch.distributed.run` starts, with DistributedDataParallel over gloo.

The argument is seq2seq.py's setup with the batch of a process, the seconds to measure and the fewest steps. The first
process answers in JSON: {"step": milliseconds}.
"""

import json
import os
import statistics
import sys

import protocol
import seq2seq


def main():
    setup = json.loads(sys.argv[1])
    threads = int(os.environ["OMP_NUM_THREADS"])
    rank = int(os.environ.get("RANK", 0))
    protocol.limit_threads(threads, first=rank * threads)
    import torch
    from torch import distributed

    if "RANK" in os.environ:
        distributed.init_process_group("gloo")
    call = protocol.warm(seq2seq.make(setup))
    steps = torch.tensor(max(setup["steps"], round(setup["seconds"] / protocol.seconds(call, 1))))
    if distributed.is_initialized():
        distributed.broadcast(steps, 0)
    times = [protocol.seconds(call, 1) for _ in range(steps)]
    if rank == 0:
        print(json.dumps({"step": 1000 * statistics.median(times)}))
    if distributed.is_initialized():
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
