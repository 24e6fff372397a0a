"""Whole programs as users of PyTorch and CuPy write them, which measure themselves on a GPU or a simulated one.

    python whole_programs.py [NAME...] [--warm N] [--passes N] [--gate-us US]

prints the versions and then a line of JSON for each program: the launches, copies and fills of one pass in order, as
PyTorch's profiler tells them (name, grid, block, its length and the time until the next one in us), and the median,
least and greatest of several passes in us: `kernels_us`, the sum of the lengths; `span_us`, from event to event around
the pass while a kernel that spins for --gate-us has let the host be ahead; `free_us`, the same without that kernel.
`python -m validate programs` compares both sides.
"""

import argparse
import ctypes
import gc
import itertools
import json
import shutil
import statistics
import subprocess
import tempfile
from importlib import metadata
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile

PROGRAMS = {}


def program(make):
    """A function that makes a program, and gives what does one pass of it."""
    PROGRAMS[make.__name__] = make
    return make


class Block(nn.Module):
    """A layer of a GPT: attention that looks back, with a cache of keys and values if one is given."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.norm1, self.norm2 = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x, cache=None):
        q, k, v = self.qkv(self.norm1(x)).chunk(3, -1)
        q, k, v = (each.unflatten(-1, (self.heads, -1)).transpose(1, 2) for each in (q, k, v))
        if cache is not None:
            cache[:] = [torch.cat(pair, 2) for pair in zip(cache, (k, v), strict=True)] if cache else [k, v]
            k, v = cache
        y = F.scaled_dot_product_attention(q, k, v, is_causal=q.shape[2] > 1)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary=4096, width=256, heads=4, layers=4, length=256):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens, caches=None, start=0):
        x = self.tokens(tokens) + self.places(torch.arange(start, start + tokens.shape[1], device=tokens.device))
        for number, block in enumerate(self.blocks):
            x = block(x, caches and caches[number])
        return self.head(self.norm(x))


def tokens_of(*shape, vocabulary=4096):
    return torch.randint(vocabulary, shape, device="cuda")


@program
def gpt_forward():
    model, tokens = GPT().cuda().eval(), tokens_of(2, 256)
    return torch.no_grad()(lambda: model(tokens))


@program
def gpt_forward_bfloat16():
    model, tokens = GPT(width=512, heads=8).cuda().eval(), tokens_of(4, 256)
    return torch.autocast("cuda", torch.bfloat16)(torch.no_grad()(lambda: model(tokens)))


@program
def gpt_training():
    model, tokens = GPT(layers=2).cuda(), tokens_of(4, 257)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step():
        with torch.autocast("cuda", torch.bfloat16):
            loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


@program
def generation():
    model, prompt = GPT(width=512, heads=8, layers=3).cuda().half().eval(), tokens_of(1, 128)

    @torch.no_grad()
    def generate():
        caches, tokens, start = [[] for _ in model.blocks], prompt, 0
        for _ in range(6):
            logits = model(tokens, caches, start)[:, -1]
            start, tokens = start + tokens.shape[1], logits.argmax(-1, keepdim=True)

    return generate


def encoder():
    layer = nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True, norm_first=True)
    return layer.cuda().half(), torch.randn(4, 128, 512, device="cuda", dtype=torch.half)


@program
def encoder_eager():
    layer, x = encoder()
    return lambda: layer(layer(x)).square().mean().backward()


@program
def encoder_compiled():
    layer, x = encoder()
    compiled = torch.compile(layer)
    return lambda: compiled(compiled(x)).square().mean().backward()


class Residual(nn.Module):
    def __init__(self, inner, outer, stride):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False), nn.BatchNorm2d(outer)
        self.conv2, self.norm2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False), nn.BatchNorm2d(outer)
        self.short = nn.Conv2d(inner, outer, 1, stride, bias=False) if stride > 1 else nn.Identity()

    def forward(self, x):
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(y + self.short(x))


def resnet(width=64):
    stages = (Residual(width, width, 1), Residual(width, 2 * width, 2), Residual(2 * width, 4 * width, 2))
    stem = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
    return nn.Sequential(*stem, *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, 100)).cuda()


@program
def resnet_forward():
    model, images = resnet().eval(), torch.randn(4, 3, 128, 128, device="cuda")
    return torch.no_grad()(lambda: model(images).softmax(-1).topk(5))


@program
def resnet_training():
    model, images = resnet().to(memory_format=torch.channels_last), torch.randn(8, 3, 96, 96, device="cuda")
    labels, optimizer = torch.randint(100, (8,), device="cuda"), torch.optim.SGD(model.parameters(), 0.1, 0.9)
    images = images.to(memory_format=torch.channels_last)

    def step():
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.half):
            loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()

    return step


class UNet(nn.Module):
    """Down and up again, with what was there before beside it; a group norm in each level."""

    def __init__(self, width=64, levels=3):
        super().__init__()
        sizes = [width << level for level in range(levels)]
        self.first, self.last = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, 3, 1)
        self.down = nn.ModuleList(self.level(max(size // 2, width), size) for size in sizes)
        self.up = nn.ModuleList(self.level(3 * size, size) for size in sizes[-2::-1])

    @staticmethod
    def level(inner, outer):
        pairs = (inner, outer), (outer, outer)
        parts = ((nn.Conv2d(*each, 3, padding=1), nn.GroupNorm(8, outer), nn.SiLU()) for each in pairs)
        return nn.Sequential(*itertools.chain(*parts))

    def forward(self, x):
        x, kept = self.first(x), []
        for level, down in enumerate(self.down):
            x = down(F.avg_pool2d(x, 2) if level else x)
            kept.append(x)
        for up, before in zip(self.up, kept[-2::-1], strict=True):
            x = up(torch.cat([F.interpolate(x, scale_factor=2.0, mode="nearest"), before], 1))
        return self.last(x)


@program
def unet_forward():
    model, images = UNet().cuda().half().eval(), torch.randn(2, 3, 64, 64, device="cuda").half()
    return torch.no_grad()(lambda: model(images))


@program
def diffusion():
    """A few steps of a sampler: what the net says is noise is taken off."""
    model, noise = UNet(32).cuda().eval(), torch.randn(2, 3, 32, 32, device="cuda")
    levels = torch.linspace(0.02, 0.98, 5, device="cuda")

    @torch.no_grad()
    def sample():
        x = noise
        for now, then in itertools.pairwise(levels):
            said = model(x)
            clean = (x - (1 - now).sqrt() * said) / now.sqrt()
            x = then.sqrt() * clean.clamp(-3, 3) + (1 - then).sqrt() * said

    return sample


@program
def mlp_training():
    sizes = 784, 1024, 512, 10
    pairs = itertools.pairwise(sizes)
    layers = [each for a, b in pairs for each in (nn.Linear(a, b), nn.ReLU(), nn.Dropout(0.1))]
    model = nn.Sequential(*layers[:-2]).cuda()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    images, labels = torch.rand(512, 784, device="cuda"), torch.randint(10, (512,), device="cuda")

    def step():
        for part, wanted in zip(images.chunk(2), labels.chunk(2), strict=True):
            optimizer.zero_grad()
            F.cross_entropy(model(part), wanted).backward()
            optimizer.step()

    return step


@program
def recurrent():
    """A recurrent net by its cell, over 16 steps, and back."""
    cell, head = nn.LSTMCell(256, 512).cuda(), nn.Linear(512, 1).cuda()
    series = torch.randn(16, 64, 256, device="cuda")

    def step():
        hidden = None
        for x in series:
            hidden = cell(x, hidden)
        F.mse_loss(head(hidden[0]).squeeze(-1), series[:, :, 0].mean(0)).backward()

    return step


@program
def graph_training():
    """Nodes of a graph take the mean of their neighbours, through atomic additions."""
    nodes, edges, width = 20_000, 160_000, 64
    source, target = torch.randint(nodes, (2, edges), device="cuda")
    x = torch.randn(nodes, width, device="cuda")
    first, second = nn.Linear(width, width).cuda(), nn.Linear(width, 16).cuda()
    degree = torch.bincount(target, minlength=nodes).clamp(min=1).unsqueeze(1)
    optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], 0.1)

    def step():
        optimizer.zero_grad()
        h = x
        for layer in (first, second):
            h = layer(h)
            h = F.relu(torch.zeros_like(h).index_add_(0, target, h[source]) / degree)
        h.log_softmax(-1)[:, 0].mean().neg().backward()
        optimizer.step()

    return step


@program
def cupy_statistics():
    import cupy

    values = cupy.random.default_rng(0).standard_normal((512, 2048), dtype=cupy.float32)

    def statistics_of():
        z = (values - values.mean(1, keepdims=True)) / values.std(1, keepdims=True)
        outliers = cupy.where(cupy.abs(z) > 3, 0, z)
        low, high = outliers.min(), outliers.max()
        table = cupy.histogram(outliers, bins=64, range=(-3.0, 3.0))[0]
        correlation = cupy.corrcoef(outliers[:128])
        order = cupy.argsort(outliers[0]), cupy.sort(outliers.ravel()[: 1 << 18])
        return low, high, table, correlation, order, cupy.cumsum(outliers, 1)[:, -1], cupy.exp(-(z**2) / 2).sum()

    return statistics_of


@program
def cupy_clusters():
    """Rounds of k-means, and the principal direction of what is in the clusters by power iteration."""
    import cupy

    rng = cupy.random.default_rng(1)
    points, start = rng.random((16384, 32), dtype=cupy.float32), rng.random((64, 32), dtype=cupy.float32)
    squared = cupy.ReductionKernel("T x", "T y", "x * x", "a + b", "y = a", "0", "squared")

    def cluster():
        centres = start
        for _ in range(4):
            nearest = (squared(centres, axis=1) - 2 * points @ centres.T).argmin(1)
            member = (nearest[:, None] == cupy.arange(64)).astype(cupy.float32)
            centres = member.T @ points / cupy.maximum(member.sum(0), 1)[:, None]
        spread, v = points - centres[nearest], cupy.ones(32, cupy.float32)
        matrix = spread.T @ spread
        for _ in range(8):
            v = matrix @ v
            v /= cupy.sqrt(squared(v))

    return cluster


SOURCE = r"""
extern "C" __global__ void heat(const float *in, float *out, int n) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x > 0 && y > 0 && x < n - 1 && y < n - 1) {
        const float *p = in + y * n + x;
        out[y * n + x] = *p + 0.2f * (p[1] + p[-1] + p[n] + p[-n] - 4.0f * *p);
    }
}
extern "C" __global__ void transpose(const float *in, float *out, int n) {
    __shared__ float tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8) tile[threadIdx.y + k][threadIdx.x] = in[(y + k) * n + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8) out[(y + k) * n + x] = tile[threadIdx.x][threadIdx.y + k];
}
extern "C" __global__ void total(const float *in, float *sum, int n) {
    float mine = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) mine += in[i];
    for (int k = 16; k; k /= 2) mine += __shfl_down_sync(~0u, mine, k);
    if (threadIdx.x % 32 == 0) atomicAdd(sum, mine);
}
"""


@program
def cuda_kernels():
    """Kernels in CUDA C++: steps of a heat equation, a transposition and a sum."""
    import cupy

    module, n = cupy.RawModule(code=SOURCE), 1024
    heat, transpose, total = map(module.get_function, ("heat", "transpose", "total"))
    a, b, count = cupy.random.default_rng(2).random((n, n), dtype=cupy.float32), cupy.empty((n, n), "f4"), cupy.int32(n)
    sums = cupy.zeros(8, cupy.float32)

    def run():
        for k in range(8):
            heat((n // 32, n // 8), (32, 8), (a, b, count))
            transpose((n // 32, n // 32), (32, 8), (b, a, count))
            total((264,), (256,), (a, sums[k:], cupy.int32(n * n)))

    return run


class LlamaLayer(nn.Module):
    """Attention of 8 heads that share 2 keys, with turned positions and mean squares, and a gated net behind it."""

    def __init__(self, width=512, heads=8, shared=2, inner=1408):
        super().__init__()
        self.size, size = width // heads, width // heads
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(2))
        self.qkv = nn.Linear(width, width + 2 * shared * size, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down, self.parts = nn.Linear(inner, width, bias=False), (width, shared * size, shared * size)

    def forward(self, x, turn):
        q, k, v = self.qkv(self.norms[0](x)).split(self.parts, -1)
        q, k, v = (each.unflatten(-1, (-1, self.size)).transpose(1, 2) for each in (q, k, v))
        q, k = (torch.cat((a * turn[0] - b * turn[1], a * turn[1] + b * turn[0]), -1)
                for a, b in (each.chunk(2, -1) for each in (q, k)))  # fmt: skip
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        y = self.norms[1](x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


@program
def llama_forward():
    layers = nn.ModuleList(LlamaLayer() for _ in range(3)).cuda().bfloat16()
    x = torch.randn(2, 256, 512, device="cuda", dtype=torch.bfloat16)
    angles = torch.outer(torch.arange(256, device="cuda"), 1e4 ** -torch.linspace(0, 1, 32, device="cuda"))
    turn = angles.cos().bfloat16(), angles.sin().bfloat16()

    @torch.no_grad()
    def forward():
        y = x
        for layer in layers:
            y = layer(y, turn)

    return forward


@program
def vision_transformer():
    """Pictures in patches, two layers of an encoder, and classes by the mean."""
    patches = nn.Conv2d(3, 384, 16, 16)
    layer = nn.TransformerEncoderLayer(384, 6, 1536, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
    model, head = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(384, 100)
    modules = [each.cuda().half().eval() for each in (patches, model, head)]
    images = torch.randn(4, 3, 224, 224, device="cuda", dtype=torch.half)

    @torch.no_grad()
    def classify():
        x = modules[0](images).flatten(2).transpose(1, 2)
        return modules[2](modules[1](x).mean(1)).softmax(-1)

    return classify


@program
def recommender_training():
    """What users liked: rows of tables by number, their products, and a net above."""
    tables = nn.ModuleList(nn.EmbeddingBag(50_000, 32, mode="sum") for _ in range(4)).cuda()
    net = nn.Sequential(nn.Linear(4 * 32 + 6, 256), nn.ReLU(), nn.Linear(256, 1)).cuda()
    optimizer = torch.optim.Adagrad([*tables.parameters(), *net.parameters()], 0.01)
    numbers, liked = torch.randint(50_000, (4, 1024, 8), device="cuda"), torch.rand(1024, device="cuda").round()
    left, right = torch.triu_indices(4, 4, 1, device="cuda")

    def step():
        optimizer.zero_grad()
        rows = torch.stack([table(each) for table, each in zip(tables, numbers, strict=True)], 1)
        products = (rows @ rows.transpose(1, 2))[:, left, right]
        said = net(torch.cat((rows.flatten(1), products), 1)).squeeze(1)
        F.binary_cross_entropy_with_logits(said, liked).backward()
        optimizer.step()

    return step


@program
def cupy_images():
    """Edges of a picture: filters along both sides, a median, and what lies around the strongest."""
    import cupy
    from cupyx.scipy import ndimage

    picture = cupy.random.default_rng(3).random((512, 512), dtype=cupy.float32)

    def edges():
        smooth = ndimage.gaussian_filter(picture, 2.0)
        slopes = cupy.hypot(ndimage.sobel(smooth, 0), ndimage.sobel(smooth, 1))
        calm = ndimage.median_filter(slopes, 3)
        strong = ndimage.grey_dilation(calm, 5) > calm.mean() + 2 * calm.std()
        return ndimage.zoom(cupy.where(strong, smooth, 0), 0.5, order=1), ndimage.maximum_filter(calm, 5)

    return edges


def of_cpp(entry):
    """A pass of whole_programs.cu, which nvcc compiles for the CUDA runtime that PyTorch has loaded."""
    source, made = Path(__file__).with_suffix(".cu"), Path(tempfile.gettempdir()) / "libwhole_programs.so"
    if not made.exists() or made.stat().st_mtime < source.stat().st_mtime:
        options = "-cudart", "shared", "-arch=sm_90", "-O3", "-std=c++17", "-shared", "-Xcompiler", "-fPIC"
        subprocess.run([shutil.which("nvcc"), *options, "-o", made, source], check=True)
    library = ctypes.CDLL(made)
    library.prepare()
    return library[entry]


@program
def cpp_gradients():
    return of_cpp("gradients")


@program
def cpp_sorting():
    return of_cpp("sorting")


def pass_of(step, gate_us=0.0):
    """Make a pass; return its time in us between events. The host is ahead by gate_us."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    if gate_us:
        torch.cuda._sleep(int(gate_us * 1980))
    start.record()
    step()
    end.record()
    torch.cuda.synchronize()
    return 1e3 * start.elapsed_time(end)


def profiled(step, gate_us):
    """Make a pass; return its time and its launches: names, grids, blocks, starts and ends."""
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        time = pass_of(step, gate_us)
    with tempfile.TemporaryDirectory() as folder:
        found.export_chrome_trace(f"{folder}/trace.json")
        events = json.loads(Path(f"{folder}/trace.json").read_text())["traceEvents"]
    kinds = "kernel", "gpu_memcpy", "gpu_memset"
    events = [each for each in events if each.get("cat") in kinds and "spin_kernel" not in each["name"]]
    rows = [(each["name"], each["args"], each["ts"], each["ts"] + each["dur"]) for each in events]
    rows.sort(key=lambda row: row[2])
    return time, [(name, args.get("grid"), args.get("block"), *times) for name, args, *times in rows]


def median(values):
    return round(statistics.median(values), 3)


def measure(name, options):
    """Make a program and its passes; return what is printed of it."""
    torch.manual_seed(0)
    step = PROGRAMS[name]()
    for _ in range(options.warm):
        step()
    torch.cuda.synchronize()
    times = {"span": [], "free": [], "kernels": []}
    for _ in range(options.passes if options.passes > 1 else 0):
        times["span"].append(pass_of(step, options.gate_us))
        times["free"].append(pass_of(step))
    passes = []
    for _ in range(options.passes):
        time, found = profiled(step, options.gate_us)
        times["span"] += [time] if options.passes == 1 else []  # a profiler takes some time itself
        times["kernels"].append(sum(end - start for *_, start, end in found))
        # The last one has no gap behind it.
        thens = [*(row[3] for row in found[1:]), found[-1][4]]
        passes.append([(*row[:3], row[4] - row[3], then - row[4]) for row, then in zip(found, thens, strict=True)])
    launches = []
    for same in zip(*passes, strict=True):
        launches.append([*same[0][:3], median(row[3] for row in same), median(row[4] for row in same)])
    stated = {
        f"{what}_us": [median(each), round(min(each), 3), round(max(each), 3)] for what, each in times.items() if each
    }
    return {"program": name, "launches": launches} | stated


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=[])
    parser.add_argument("--warm", type=int, default=1)
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--gate-us", type=float, default=0.0)
    options = parser.parse_args()
    versions = {name: metadata.version(name) for name in ("torch", "triton", "cupy-cuda13x", "nvidia-cublas")}
    print(json.dumps({"gpu": torch.cuda.get_device_name(), "cudnn": torch.backends.cudnn.version()} | versions))
    for name in options.names or PROGRAMS:
        print(json.dumps(measure(name, options)), flush=True)
        gc.collect()


if __name__ == "__main__":
    main()
