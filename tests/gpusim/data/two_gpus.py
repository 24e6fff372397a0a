"""What two GPUs compute and take, by PyTorch: sums of NCCL, three steps of each kind of parallelism, and the profiler's
times of copies and collectives. Writes `two_gpus_RANK.json`.

    NCCL_NVLS_ENABLE=0 torchrun --nproc-per-node 2 two_gpus.py FOLDER [sums ddp fsdp tensor_parallel pipeline times]
"""

import hashlib
import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

RANK = int(os.environ["RANK"])
DEVICE = torch.device("cuda", RANK)
TYPES = (torch.float32, torch.float16, torch.bfloat16, torch.int32)


def network():
    torch.manual_seed(0)
    layers = nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 64)
    return nn.Sequential(*layers).to(DEVICE)


def batch(step, rank):
    drawn = torch.Generator().manual_seed(100 + 10 * step + rank)
    inputs = torch.randn(64, 256, generator=drawn)
    return inputs.to(DEVICE), torch.randint(0, 64, (64,), generator=drawn).to(DEVICE)


def trained(model, whole=lambda parameter: parameter, same=False):
    optimizer, losses = torch.optim.AdamW(model.parameters(), 1e-3, foreach=not same), []
    for step in range(3):
        inputs, labels = batch(step, 0 if same else RANK)
        loss = nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"losses": losses, "parameter_sums": sums_of(map(whole, model.parameters()))}


def sums_of(parameters):
    return [each.detach().cpu().double().abs().sum().item() for each in parameters]


def ddp():
    return trained(nn.parallel.DistributedDataParallel(network(), device_ids=[RANK]))


def fsdp():
    from torch.distributed.fsdp import fully_shard

    model = network()
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer)
    return trained(fully_shard(model), lambda parameter: parameter.full_tensor())


def tensor_parallel():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    model = parallelize_module(network(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    return trained(model, lambda each: each.full_tensor() if hasattr(each, "full_tensor") else each, same=True)


def pipeline():
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    part = network()[:2] if RANK == 0 else network()[2:]
    stage = PipelineStage(part, RANK, dist.get_world_size(), DEVICE)
    schedule = ScheduleGPipe(stage, n_microbatches=4, loss_fn=nn.functional.cross_entropy)
    optimizer, losses = torch.optim.AdamW(part.parameters(), 1e-3), []
    for step in range(3):
        inputs, labels = batch(step, 0)
        optimizer.zero_grad()
        if RANK == 0:
            schedule.step(inputs)
        else:
            schedule.step(target=labels, losses=(parts := []))
            losses.append([each.item() for each in parts])
        optimizer.step()
    return {"losses": losses, "parameter_sums": sums_of(part.parameters())}


def sums():
    drawn, found = torch.Generator().manual_seed(RANK), {}
    for kind in TYPES:
        mine = (torch.randn(1001, generator=drawn) * 4).to(kind).to(DEVICE)
        for operation in (dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.AVG):
            if operation != dist.ReduceOp.AVG or kind.is_floating_point:
                dist.all_reduce(total := mine.clone(), operation)
                content = total.cpu().view(torch.uint8).numpy().tobytes()
                found[f"{kind} {operation}"] = hashlib.sha256(content).hexdigest()
    return found


def durations(work, kind, name="", times=8):
    """Microseconds of the device's kernels or copies."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(times):
            work()
            torch.cuda.synchronize()
    path = Path(sys.argv[1], f"trace_{RANK}.json")
    profile.export_chrome_trace(str(path))
    events = [each for each in json.loads(path.read_text())["traceEvents"] if each.get("cat") == kind]
    return [each["dur"] for each in sorted(events, key=lambda each: each["ts"]) if name in each["name"]]


def times():
    found = {}
    for nbytes in (1 << power for power in range(12, 31, 2)):
        mine, other = torch.ones(nbytes // 4, device=DEVICE), torch.empty(nbytes // 4, device=DEVICE)
        piece = nbytes // 4 // dist.get_world_size()
        for name, work in {
            "all_reduce": lambda mine=mine: dist.all_reduce(mine),
            "all_gather": lambda mine=mine, other=other, n=piece: dist.all_gather_into_tensor(other, mine[:n]),
            "reduce_scatter": lambda mine=mine, other=other, n=piece: dist.reduce_scatter_tensor(other[:n], mine),
            "broadcast": lambda mine=mine: dist.broadcast(mine, 0),
            "reduce": lambda mine=mine: dist.reduce(mine, 0),
            "all_to_all": lambda mine=mine, other=other: dist.all_to_all_single(other, mine),
        }.items():
            for _ in range(3):
                work()
            torch.cuda.synchronize()
            dist.barrier()
            found[f"{name}/{nbytes}"] = durations(work, "kernel", "nccl")
        if RANK == 0 and nbytes >= 1 << 16:
            far = torch.empty(nbytes // 4, device="cuda:1")
            found[f"copy/{nbytes}"] = durations(lambda mine=mine, far=far: far.copy_(mine), "gpu_memcpy")
    return found


if __name__ == "__main__":
    folder, *chosen = sys.argv[1:]
    torch.cuda.set_device(RANK)
    dist.init_process_group("nccl", device_id=DEVICE)
    every = (sums, ddp, fsdp, tensor_parallel, pipeline, times)
    told = {each.__name__: each() for each in every if not chosen or each.__name__ in chosen}
    Path(folder, f"two_gpus_{RANK}.json").write_text(json.dumps(told))
    dist.barrier()
    dist.destroy_process_group()
