"""How a bench and its baselines talk, in JSON: a command a line on the standard input, an answer a line on the standard
output.

    {"hello": {"threads": 2}}     -> {"torch": "2.15.0", "jax": null, ..}    versions; null where absent
    {"setup": {"id": 0, ...}}     -> {} or {"skipped": "why it cannot run"}
    {"run": 0, "repeats": 3}      -> {"seconds": 0.0123}    the mean of the calls, by this clock
    {"memory": {"id": 0, ...}}    -> {"bytes": 4096}        what a call takes at its peak; null where unknown
    {"rest": null}                -> {}                     hands back memory that is kept for the next call
    {"drop": null}                -> {}                     forgets what was set up

The clock runs around the calls only, so it does not see the pipe. Memory is asked of a second process, whose allocator
is told to give memory back at once (see baselines.rs).
"""

import ctypes
import gc
import json
import os
import sys
import time
import warnings
from importlib import metadata


def serve(make):
    """Answers until the input ends. `make(setup)` returns a function that does the work once, to its end."""
    warnings.filterwarnings("ignore")
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # What a library prints must not pass for an answer.
    calls = {}
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line), calls, make)), file=answers)


def answer(command, calls, make):
    match command:
        case {"hello": {"threads": threads}}:
            limit_threads(threads)
            return {name: version(name) for name in ("torch", "jax", "ctranslate2")}
        case {"setup": setup}:
            try:
                calls[setup["id"]] = warm(make(setup))
            except Exception as error:  # Whatever it is, it is why this baseline does not run.
                reason = (str(error).strip() or "no reason given").splitlines()[0]
                return {"skipped": f"{type(error).__name__}: {reason}"}
            finally:
                hand_back()
            return {}
        case {"run": key, "repeats": repeats}:
            return {"seconds": seconds(calls[key], repeats)}
        case {"memory": setup}:
            measure = peak_on_cuda if setup.get("device") == "cuda" else peak_extra
            peak = measure(warm(make(setup)))
            hand_back()
            return {"bytes": peak}
        case {"rest": _}:
            hand_back()
            return {}
        case {"drop": _}:
            calls.clear()
            hand_back()
            return {}
    raise ValueError(f"a command expected, got {command}")


def limit_threads(threads, first=0):
    """To `threads` cores from the `first` on, and as many threads. Must come before torch and jax are imported."""
    os.environ |= {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads), "JAX_PLATFORMS": "cpu"}
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[first : first + threads])


def version(package):
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def warm(call):
    """`call`, after what only a first call does: compiling, buffers that stay."""
    call()
    return call


def seconds(call, repeats):
    started = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - started) / repeats


def hand_back():
    """Frees what has gone, and gives a GPU's freed memory back to the device."""
    gc.collect()
    if "torch" in sys.modules:
        sys.modules["torch"].cuda.empty_cache()  # Nothing, where CUDA was not used.


def peak_on_cuda(call):
    """Peak of the memory that PyTorch allocates on the GPU during a call, above what was allocated before it."""
    import torch

    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    return torch.cuda.max_memory_allocated() - before


def finished_on(device):
    """Makes torch ready for `device`; from a function that queues work there to one that returns when that is done."""
    import torch

    backend = getattr(torch, device)
    if not backend.is_available():
        raise RuntimeError(f"torch {torch.__version__} finds no device of {device}")
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    # float32 is float32, not TensorFloat-32; that is the default.
    torch.backends.cuda.matmul.allow_tf32 = False

    def finished(function):
        def call():
            result = function()
            backend.synchronize()
            return result

        return call

    return finished


def peak_extra(call):
    """Peak resident memory during a call, above the resident memory before it; None where the system does not tell."""
    gc.collect()
    time.sleep(0.1)  # JAX frees in the background.
    try:
        ctypes.CDLL(None).malloc_trim(0)  # Freed memory that the allocator keeps would hide what the call takes.
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # The peak begins anew.
        before = resident("VmRSS")
        call()
        return max(resident("VmHWM") - before, 0)
    except (AttributeError, OSError):
        return None


def resident(field):
    with open("/proc/self/status") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith(field))
