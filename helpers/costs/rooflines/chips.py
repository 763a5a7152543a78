"""The chips of the course, every field with its source, and `chip`, which finds one by name (chapter 1).

FLOPs/s are dense peaks throughout: a data sheet that prints a rate "with sparsity" prints twice that.
Rounded values are those that the course computes with; `tests/helpers/costs/rooflines/test_chips.py` holds them against a second source.
"""

import re
from difflib import get_close_matches
from os.path import commonprefix
from types import MappingProxyType as Frozen

from helpers.arguments import entries

from .hardware import Chip

BOOK = "Austin et al., How To Scale Your Model (2025), table of TPU specs"
V5E = "Google Cloud, TPU v5e system architecture: docs.cloud.google.com/tpu/docs/v5e"
V5P = "Google Cloud, TPU v5p system architecture: docs.cloud.google.com/tpu/docs/v5p"
V6E = "Google Cloud, TPU v6e system architecture: docs.cloud.google.com/tpu/docs/v6e"
V7 = "Google Cloud, TPU7x (Ironwood): docs.cloud.google.com/tpu/docs/tpu7x"
VMEM = "jax/_src/tpu_info.py in JAX 0.12 (VMEM per TensorCore, times cores)"
A100 = "NVIDIA A100 Tensor Core GPU datasheet (2021) and Ampere architecture whitepaper, SXM4"
H100 = "NVIDIA H100 Tensor Core GPU datasheet and Hopper architecture whitepaper, SXM5, dense rates"
H200 = "NVIDIA H200 Tensor Core GPU datasheet, SXM, dense rates"
B200 = "NVIDIA HGX B200 and DGX B200 datasheets, dense rates, one of eight GPUs"
H100_500W = (
    "H100 with 96 GB of HBM2e, capped at 500 W (Grand Teton; torchtitan, benchmarks/, 2024), with the rates of the SXM5"
)
B300 = "NVIDIA HGX B300 and DGX B300 datasheets, dense rates, one of eight GPUs"
GB200 = "NVIDIA GB200 NVL72 datasheet, dense rates, one of 72 GPUs"
GB300 = "NVIDIA GB300 NVL72 datasheet, dense rates, one of 72 GPUs"
H100_PCIE = "NVIDIA H100 Tensor Core GPU datasheet and Hopper architecture whitepaper, PCIe, dense rates"
H800 = (
    "an H100 SXM5 whose NVLink is capped at 400 GB/s both ways (Zhao et al. 2025, Insights into DeepSeek-V3, section 4)"
)
H20 = "NVIDIA H20 datasheet (HGX H20, 96 GB), dense rates; few vendors publish it"
MI300X = "AMD Instinct MI300X data sheet and CDNA 3 white paper, dense rates"
MI355X = "AMD Instinct MI355X data sheet and CDNA 4 white paper, dense rates"
TRN2 = "AWS Neuron documentation, Trainium2 Architecture: awsdocs-neuron.readthedocs-hosted.com/en/latest"
TRN2_48 = "AWS, EC2 Trn2 instances: aws.amazon.com/ec2/instance-types/trn2"
SYSTEM = "one network card a GPU, as in the vendor's DGX system"
SWITCH = "NVSwitch: every GPU one hop from every other"
MESH = "no switch: every GPU has one link to each of the other seven, which together are its rate; a pair has a seventh of it"
BANKS = "32 banks of 4 bytes a clock in each SM (NVIDIA, CUDA C++ Programming Guide, Shared Memory)"
DCN = "25e9 bytes/s of network for one host (Austin et al. 2025), divided by its chips"


def _tpu(
    name,
    bf16,
    int8,
    hbm,
    hbm_bw,
    vmem,
    link,
    pod,
    cores,
    per_host,
    pcie=1.5e10,
    dcn=None,
    fp8=None,
    vmem_bw=None,
    sources=None,
):
    """One TPU row; fields without a source of their own come from the specs table of the book."""
    flops = {"bf16": bf16, **({"int8": int8} if int8 else {}), **({"fp8": fp8} if fp8 else {})}
    fields = (
        "flops",
        "hbm_bytes",
        "hbm_bandwidth",
        "link_bandwidth",
        "pod",
        "cores",
        "chips_per_host",
        "pcie_bandwidth",
    )
    where = {
        **dict.fromkeys(fields, BOOK),
        "axes": "length of pod",
        "fast_bytes": VMEM,
        "dcn_bandwidth": DCN,
        **(sources or {}),
    }
    where.setdefault("fast_bandwidth", "not published")
    where.setdefault("watts", "not published")
    return Chip(
        name,
        "tpu",
        Frozen(flops),
        hbm,
        hbm_bw,
        vmem * 2**20,
        vmem_bw,
        link,
        len(pod),
        pod,
        cores,
        per_host,
        pcie,
        dcn or 2.5e10 / per_host,
        None,
        Frozen(where),
        ("TensorCore", "ICI"),
    )


def _gpu(
    name,
    source,
    hbm,
    hbm_bw,
    smem,
    nvlink,
    sms,
    pcie,
    nic,
    watts,
    clock,
    domain=8,
    per_host=8,
    read=128,
    names=("SM", "NVLink"),
    neighbours=0,
    sources=None,
    **flops,
):
    """One GPU row: `smem` KiB of shared memory for each SM, `nvlink` one way, `nic` bits/s of network for each GPU.

    clock   bf16 FLOPs of an SM in a clock cycle, in which its shared memory reads `read` bytes
    names   what its cores and its links are called
    """
    fields = ("flops", "hbm_bytes", "hbm_bandwidth", "fast_bytes", "link_bandwidth", "cores", "pcie_bandwidth", "watts")
    where = {
        **dict.fromkeys(fields, source),
        "fast_bandwidth": f"{BANKS}, at the clock of its FLOPs/s",
        "axes": SWITCH,
        "pod": "eight GPUs behind one NVSwitch (DGX, HGX)"
        if domain == 8
        else f"{domain} GPUs of a rack behind NVSwitches",
        "chips_per_host": "DGX and HGX: eight" if per_host == 8 else "compute tray: four",
        "dcn_bandwidth": SYSTEM,
        **(sources or {}),
    }
    return Chip(
        name,
        "gpu",
        Frozen(flops),
        hbm,
        hbm_bw,
        smem * 1024 * sms,
        read * flops["bf16"] / clock,
        nvlink,
        0,
        (domain,),
        sms,
        per_host,
        pcie,
        nic / 8,
        watts,
        Frozen(where),
        names,
        neighbours,
    )


AMPERE = dict(clock=2048, bf16=3.12e14, int8=6.24e14, f32=1.95e13)
HOPPER = dict(clock=4096, bf16=9.89e14, int8=1.979e15, fp8=1.979e15, f32=6.7e13)  # H100 and H200 differ in memory only
BLACKWELL = dict(clock=8192, bf16=2.25e15, int8=4.5e15, fp8=4.5e15, fp4=9e15, f32=7.5e13)
RACK = dict(clock=8192, bf16=2.5e15, int8=5e15, fp8=5e15, fp4=1e16, f32=8e13)
ULTRA = dict(clock=8192, bf16=2.25e15, fp8=4.5e15, fp4=1.35e16, f32=7.5e13)  # INT8 is a fraction of the others there
ULTRA_RACK = dict(clock=8192, bf16=2.5e15, fp8=5e15, fp4=1.5e16, f32=8e13)
AMD = dict(
    names=("CU", "Infinity Fabric"),
    neighbours=7,
    sources={
        "axes": MESH,
        "pod": "eight GPUs of a platform (OAM on a universal baseboard)",
        "chips_per_host": "eight on a baseboard",
        "fast_bandwidth": "LDS bytes a clock of each CU (AMD, CDNA 3 and CDNA 4 white papers), at the clock of its FLOPs/s",
        "dcn_bandwidth": "one 400 Gb/s network card a GPU (AMD, Instinct MI300X Cluster Reference Architecture)",
    },
)
_ALL = (
    _tpu(
        "v3",
        1.4e14,
        1.4e14,
        32e9,
        9.0e11,
        32,
        1e11,
        (32, 32),
        2,
        4,
        sources={
            "flops": f"{BOOK}; it repeats the bf16 rate for int8, which JAX's own table does not list",
            "chips_per_host": "four chips, that is the eight cores of the 4x2 in the book's table",
        },
    ),
    _tpu("v4p", 2.75e14, 2.75e14, 32e9, 1.2e12, 32, 4.5e10, (16, 16, 16), 2, 4),
    # 8.2e11 stands in some texts; the vendor's page says 819 GB/s and the specs table 8.1e11, which the course computes with.
    _tpu(
        "v5e",
        1.97e14,
        3.94e14,
        16e9,
        8.1e11,
        128,
        4.5e10,
        (16, 16),
        1,
        8,
        vmem_bw=22 * 8.1e11,
        sources={"fast_bandwidth": "about 22 times HBM (Austin et al. 2025, VMEM)", "flops": f"{BOOK}; {V5E}"},
    ),
    _tpu("v5p", 4.59e14, 9.18e14, 96e9, 2.8e12, 128, 9e10, (16, 20, 28), 2, 4, sources={"flops": f"{BOOK}; {V5P}"}),
    _tpu(
        "v6e",
        9.20e14,
        1.84e15,
        32e9,
        1.6e12,
        128,
        9e10,
        (16, 16),
        1,
        8,
        pcie=3.2e10,
        dcn=1.25e10,
        sources={
            "dcn_bandwidth": f"100 Gb/s a chip: {V7}, comparison table",
            "flops": f"{BOOK} (the vendor's page says 9.18e14: {V6E})",
        },
    ),
    # 1200 GB/s of ICI a chip, over six links and both directions: 100 GB/s one way. 16x24x24 is the 9,216-chip pod.
    _tpu(
        "v7",
        2.307e15,
        None,
        192 * 2**30,
        7.38e12,
        128,
        1e11,
        (16, 24, 24),
        2,
        4,
        fp8=4.614e15,
        pcie=None,
        dcn=1.25e10,
        sources={
            **dict.fromkeys(
                ("flops", "hbm_bytes", "hbm_bandwidth", "link_bandwidth", "cores", "chips_per_host", "dcn_bandwidth"),
                V7,
            ),
            "pod": f"9,216 chips: {V7}",
            "pcie_bandwidth": "not published",
        },
    ),
    _gpu("A100", A100, 80e9, 2.039e12, 164, 3e11, 108, 3.2e10, 2e11, 400, **AMPERE),
    _gpu("A100-40GB", A100, 40e9, 1.555e12, 164, 3e11, 108, 3.2e10, 2e11, 400, **AMPERE),
    _gpu("H100", H100, 80e9, 3.35e12, 228, 4.5e11, 132, 6.4e10, 4e11, 700, **HOPPER),
    _gpu("H100-500W", H100_500W, 96e9, 2.4e12, 228, 4.5e11, 132, 6.4e10, 4e11, 500, **HOPPER),
    _gpu("H200", H200, 141e9, 4.8e12, 228, 4.5e11, 132, 6.4e10, 4e11, 700, **HOPPER),
    _gpu("B200", B200, 180e9, 7.7e12, 228, 9e11, 148, 6.4e10, 4e11, 1000, **BLACKWELL),
    _gpu("B300", B300, 288e9, 8e12, 228, 9e11, 148, 6.4e10, 8e11, 1100, **ULTRA),
    _gpu("GB200", GB200, 186e9, 8e12, 228, 9e11, 148, 6.4e10, 4e11, 1200, domain=72, per_host=4, **RACK),
    _gpu("GB300", GB300, 288e9, 8e12, 228, 9e11, 148, 6.4e10, 8e11, 1400, domain=72, per_host=4, **ULTRA_RACK),
    # Cards in pairs under an NVLink bridge: what lies beyond a pair goes through PCIe to a card that two of them share.
    _gpu(
        "H100-PCIe", H100_PCIE, 80e9, 2.0e12, 228, 3e11, 114, 6.4e10, 2e11, 350, clock=4096, domain=2,
        bf16=7.56e14, int8=1.513e15, fp8=1.513e15, f32=5.1e13,
        sources={
            "axes": "NVLink bridge between two cards",
            "pod": "two cards under one bridge",
            "chips_per_host": "eight in a server",
            "dcn_bandwidth": "one 400 Gb/s network card for two GPUs (NVIDIA, Enterprise Reference Architecture, PCIe Optimized 2-8-5); "
            "pairs of one server exchange at this rate here, which is less than their PCIe",
        },
    ),
    _gpu("H800", H800, 80e9, 3.35e12, 228, 2e11, 132, 6.4e10, 4e11, 700, **HOPPER),
    # Its tensor cores are throttled and its clock is not: shared memory reads at the boost clock, 1.98 GHz.
    _gpu(
        "H20", H20, 96e9, 4.0e12, 228, 4.5e11, 78, 6.4e10, 4e11, 400, clock=1.48e14 / (78 * 1.98e9),
        bf16=1.48e14, int8=2.96e14, fp8=2.96e14, f32=4.4e13,
        sources={"fast_bandwidth": f"{BANKS}, at 1.98 GHz"},
    ),
    _gpu("MI300X", MI300X, 192e9, 5.3e12, 64, 7 * 6.4e10, 304, 6.4e10, 4e11, 750, clock=2048,
         bf16=1.307e15, int8=2.615e15, fp8=2.615e15, f32=1.634e14, **AMD),
    _gpu("MI355X", MI355X, 288e9, 8e12, 160, 7 * 7.68e10, 256, 6.4e10, 4e11, 1400, clock=4096, read=256,
         bf16=2.516e15, int8=5.033e15, fp8=5.033e15, fp4=1.0066e16, f32=1.573e14, **AMD),
    Chip(
        "Trn2", "trn", Frozen({"bf16": 6.67e14, "fp8": 1.299e15, "f32": 1.81e14}), 96 * 2**30, 2.9e12, 224 * 2**20, None,
        4 * 1.28e11, 0, (16,), 8, 16, None, 2.5e10, None,
        Frozen(
            {
                **dict.fromkeys(("flops", "hbm_bytes", "hbm_bandwidth", "fast_bytes", "cores"), TRN2),
                "link_bandwidth": f"1.28 TB/s both ways, six links ({TRN2}): four of 128 GB/s one way inside an instance, which count "
                "here, and two of 64 GB/s to other instances of an UltraServer, which do not (SemiAnalysis, Trainium2, 2024)",
                "axes": "a torus of 4x4 in fact, taken as one domain: its sixteen chips together reach all four links of each, "
                "four in a row reach two",
                "pod": f"sixteen chips of an instance: {TRN2_48}; an UltraServer joins four of them",
                "chips_per_host": TRN2_48,
                "dcn_bandwidth": f"3.2 Tb/s of EFA for sixteen chips: {TRN2_48}",
                **dict.fromkeys(("fast_bandwidth", "pcie_bandwidth", "watts"), "not published"),
            }
        ),
        ("NeuronCore", "NeuronLink"),
        4,
    ),
)  # fmt: skip

CHIPS = Frozen({c.name: c for c in _ALL})
ALIASES = Frozen(
    {
        "v4": "v4p", "7x": "v7", "ironwood": "v7", "trillium": "v6e", "v5-lite": "v5e", "v5litepod": "v5e", "v6-lite": "v6e",
        "a100-80gb": "A100", "a100-sxm": "A100", "a100-sxm4": "A100", "h100-sxm": "H100", "h100-sxm5": "H100", "h100-80gb": "H100",
        "h100-80gb-hbm3": "H100", "h800-sxm": "H800", "h200-sxm": "H200", "gb200-nvl72": "GB200", "gb300-nvl72": "GB300",
        "mi300": "MI300X", "mi355": "MI355X", "trainium2": "Trn2", "trainium-2": "Trn2", "trn2.48xlarge": "Trn2",
    }
)  # fmt: skip
BEFORE = re.compile(r"^(nvidia|amd|instinct|aws|google|cloud|tpu)[- ]*")


def chip(name: str) -> Chip:
    """The chip of that name, upper or lower case, with its maker's name or without; an unknown name is answered with the near ones.

    >>> chip("h100").name, chip("TPU v5p").name, chip("nvidia-h100-sxm").name, chip("trainium2").name
    ('H100', 'v5p', 'H100', 'Trn2')
    >>> chip("v5f")
    Traceback (most recent call last):
    ValueError: no chip is called 'v5f'; did you mean v5p, v5e, v7 or v4p?
    """
    known = {n.lower(): c for n, c in CHIPS.items()} | {a: CHIPS[n] for a, n in ALIASES.items()}
    asked = str(name).strip().lower().replace("_", "-").replace(" ", "-")
    while (short := BEFORE.sub("", asked)) != asked:
        asked = short
    if asked in known:
        return known[asked]
    near = get_close_matches(asked, known, n=8, cutoff=0.4)
    near.sort(key=lambda n: -len(commonprefix((n, asked))))
    near = list(dict.fromkeys(known[n].name for n in near))[:4] or list(CHIPS)
    listed = near[0] if len(near) == 1 else ", ".join(near[:-1]) + " or " + near[-1]
    raise ValueError(f"no chip is called {name!r}; did you mean {listed}?")


entries(__name__)
