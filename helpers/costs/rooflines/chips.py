"""The chips of the course, every field with its source, and `chip`, which finds one by name (chapter 1).

FLOPs/s are dense peaks throughout: a data sheet that prints a rate "with sparsity" prints twice that.
Rounded values are those that the course computes with; `tests/helpers/costs/rooflines/test_chips.py` holds them against a second source.
"""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from os.path import commonprefix
from types import MappingProxyType as Frozen

from helpers.arguments import formula, unchecked

from .hardware import Chip

BOOK = "Austin et al., How To Scale Your Model (2025), table of TPU specs"
V5E = "Google Cloud, TPU v5e system architecture: docs.cloud.google.com/tpu/docs/v5e"
V5P = "Google Cloud, TPU v5p system architecture: docs.cloud.google.com/tpu/docs/v5p"
V6E = "Google Cloud, TPU v6e system architecture: docs.cloud.google.com/tpu/docs/v6e"
V7 = "Google Cloud, TPU7x (Ironwood): docs.cloud.google.com/tpu/docs/tpu7x"
A100 = "NVIDIA A100 Tensor Core GPU datasheet (2021) and Ampere architecture whitepaper, SXM4"
H100 = "NVIDIA H100 Tensor Core GPU datasheet and Hopper architecture whitepaper, SXM5, dense rates"
H200 = "NVIDIA H200 Tensor Core GPU datasheet, SXM, dense rates"
B200 = "NVIDIA HGX B200 and DGX B200 datasheets, dense rates, one of eight GPUs"
H100_500W = "H100 with 96 GB of HBM2e, capped at 500 W (Grand Teton; torchtitan, benchmarks/, 2024); rates of the SXM5"
B300 = "NVIDIA HGX B300 and DGX B300 datasheets, dense rates, one of eight GPUs"
GB200 = "NVIDIA GB200 NVL72 datasheet, dense rates, one of 72 GPUs"
GB300 = "NVIDIA GB300 NVL72 datasheet, dense rates, one of 72 GPUs"
H100_PCIE = "NVIDIA H100 Tensor Core GPU datasheet and Hopper architecture whitepaper, PCIe, dense rates"
H800 = "H100 SXM5 whose NVLink is capped at 400 GB/s both ways (Zhao et al. 2025, Insights into DeepSeek-V3, section 4)"
H20 = "NVIDIA H20 datasheet (HGX H20, 96 GB), dense rates; few vendors publish it"
MI300X = "AMD Instinct MI300X data sheet and CDNA 3 white paper, dense rates"
MI355X = "AMD Instinct MI355X data sheet and CDNA 4 white paper, dense rates"
TRN2 = "AWS Neuron documentation, Trainium2 Architecture: awsdocs-neuron.readthedocs-hosted.com/en/latest"
TRN2_48 = "AWS, EC2 Trn2 instances: aws.amazon.com/ec2/instance-types/trn2"
NOWHERE = "not published"
BANKS = "32 banks of 4 bytes a clock in each SM (NVIDIA, CUDA C++ Programming Guide, Shared Memory)"

KIB, MIB = 2**10, 2**20
CUBES = dict(axes=3, cores=2, chips_per_host=4, dcn_bandwidth=2.5e10 / 4)
TPU = dict(
    kind="tpu", names=("TensorCore", "ICI"), fast_bytes=128 * MIB, fast_bandwidth=None, pcie_bandwidth=1.5e10, watts=None, lender="v5e",
    in_sheet="flops hbm_bytes hbm_bandwidth link_bandwidth pod cores chips_per_host pcie_bandwidth",
    sources={
        "axes": "length of pod",
        "fast_bytes": "jax/_src/tpu_info.py in JAX 0.12 (VMEM per TensorCore, times cores)",
        "dcn_bandwidth": "25e9 bytes/s of network for one host (Austin et al. 2025), divided by its chips",
        **dict.fromkeys(("fast_bandwidth", "watts"), NOWHERE),
    },
)  # fmt: skip
GPU = dict(
    kind="gpu", names=("SM", "NVLink"), axes=0, pod=(8,), chips_per_host=8, pcie_bandwidth=6.4e10, clock_exps=16, lender="H100",
    menu="planner", in_sheet="flops hbm_bytes hbm_bandwidth fast_bytes link_bandwidth cores pcie_bandwidth watts",
    sources={
        "fast_bandwidth": f"{BANKS}, at the clock of its FLOPs/s",
        "axes": "NVSwitch: every GPU one hop from every other",
        "pod": "eight GPUs behind one NVSwitch (DGX, HGX)",
        "chips_per_host": "DGX and HGX: eight",
        "dcn_bandwidth": "one network card a GPU, as in the vendor's DGX system",
    },
)  # fmt: skip


def _rates(clock_flops: float, shared_bytes: int = 128, **flops: float) -> dict:
    """Dense FLOPs/s, and the bytes/s of shared memory, of which a core reads `shared_bytes` in a clock with `clock_flops` in bf16."""
    return dict(flops=flops, clock_flops=clock_flops, fast_bandwidth=shared_bytes * flops["bf16"] / clock_flops)


# What the chips of one generation have in common; RACK and ULTRA are faster Blackwells.
AMPERE = GPU | _rates(2048, bf16=3.12e14, int8=6.24e14, f32=1.95e13) | dict(
    cores=108, fast_bytes=108 * 164 * KIB, link_bandwidth=3e11, pcie_bandwidth=3.2e10, dcn_bandwidth=2.5e10, watts=400, l2_bytes=40e6,
    hbm_cycles=500, generation="ampere", serving=True, links="ampere",
)  # fmt: skip
HOPPER = GPU | _rates(4096, bf16=9.89e14, int8=1.979e15, fp8=1.979e15, f32=6.7e13) | dict(
    cores=132, fast_bytes=132 * 228 * KIB, link_bandwidth=4.5e11, dcn_bandwidth=5e10, watts=700, switch_adds=True, links="hopper",
)  # fmt: skip
MEASURED_HOPPER = HOPPER | dict(l2_bytes=50e6, generation="hopper", serving=True, menu="all")
BLACKWELL = GPU | dict(
    cores=148, fast_bytes=148 * 228 * KIB, link_bandwidth=9e11, switch_adds=True, generation="blackwell", links="blackwell",
)  # fmt: skip
RACK = BLACKWELL | dict(
    pod=(72,),
    chips_per_host=4,
    sources=GPU["sources"] | {"pod": "72 GPUs of a rack behind NVSwitches", "chips_per_host": "compute tray: four"},
)
MEASURED_B200 = dict(l2_bytes=126e6, hbm_cycles=860)
B200_RATES = _rates(8192, bf16=2.25e15, int8=4.5e15, fp8=4.5e15, fp4=9e15, f32=7.5e13)
RACK_RATES = _rates(8192, bf16=2.5e15, int8=5e15, fp8=5e15, fp4=1e16, f32=8e13)
ULTRA_RATES = _rates(8192, bf16=2.25e15, fp8=4.5e15, fp4=1.35e16, f32=7.5e13)  # INT8 is a fraction of the others there
ULTRA_RACK_RATES = _rates(8192, bf16=2.5e15, fp8=5e15, fp4=1.5e16, f32=8e13)
AMD = GPU | dict(
    names=("CU", "Infinity Fabric"),
    neighbours=7,
    dcn_bandwidth=5e10,
    clock_exps=None,
    links="cdna",
    attains=7.08e14 / 1.307e15,
    streams=4.177e12 / 5.3e12,
    sources={
        "fast_bandwidth": "LDS bytes a clock of each CU (AMD, CDNA 3 and CDNA 4 white papers), at the clock of its FLOPs/s",
        "axes": "no switch: every GPU has one link to each of the other seven, which together are its rate; a pair has a seventh of it",
        "pod": "eight GPUs of a platform (OAM on a universal baseboard)",
        "chips_per_host": "eight on a baseboard",
        "dcn_bandwidth": "one 400 Gb/s network card a GPU (AMD, Instinct MI300X Cluster Reference Architecture)",
    },
)


def _chip(name: str, sheet: str, common: dict, sources: Mapping[str, str] = Frozen({}), **row) -> Chip:
    """A row: fields of `Chip` that its kind and generation have in common, and its own.

    sheet    where those fields were read that a data sheet of its kind has, `in_sheet`
    sources  where it has others from than its kind
    """
    fields = common | row
    read_in = dict.fromkeys(fields.pop("in_sheet").split(), sheet) | fields.pop("sources") | sources
    with unchecked():
        return Chip(**fields | {"name": name, "flops": Frozen(fields["flops"]), "sources": Frozen(read_in)})


# One chip, one row: its numbers, its sources, what was measured on it, and the menus it stands in.
_ALL = (
    _chip(
        "v3", BOOK, TPU, flops=dict(bf16=1.4e14, int8=1.4e14), hbm_bytes=32e9, hbm_bandwidth=9.0e11, fast_bytes=32 * MIB, axes=2,
        link_bandwidth=1e11, pod=(32, 32), cores=2, chips_per_host=4, dcn_bandwidth=2.5e10 / 4, generation="v5",
        sources={
            "flops": f"{BOOK}; it repeats the bf16 rate for int8, which JAX's own table does not list",
            "chips_per_host": "four chips, that is the eight cores of the 4x2 in the book's table",
        },
    ),
    _chip(
        "v4p", BOOK, TPU | CUBES, flops=dict(bf16=2.75e14, int8=2.75e14), hbm_bytes=32e9, hbm_bandwidth=1.2e12, fast_bytes=32 * MIB,
        link_bandwidth=4.5e10, pod=(16, 16, 16), generation="v5",
    ),
    # 8.2e11 stands in some texts; the vendor's page says 819 GB/s and the specs table 8.1e11, which the course computes with.
    _chip(
        "v5e", BOOK, TPU, flops=dict(bf16=1.97e14, int8=3.94e14), hbm_bytes=16e9, hbm_bandwidth=8.1e11, fast_bandwidth=22 * 8.1e11, axes=2,
        link_bandwidth=4.5e10, pod=(16, 16), cores=1, chips_per_host=8, dcn_bandwidth=2.5e10 / 8, generation="v5", serving=True, menu="all",
        sources={"fast_bandwidth": "about 22 times HBM (Austin et al. 2025, VMEM)", "flops": f"{BOOK}; {V5E}"},
    ),
    _chip(
        "v5p", BOOK, TPU | CUBES, flops=dict(bf16=4.59e14, int8=9.18e14), hbm_bytes=96e9, hbm_bandwidth=2.8e12, link_bandwidth=9e10,
        pod=(16, 20, 28), generation="v5", menu="all", sources={"flops": f"{BOOK}; {V5P}"},
    ),
    _chip(
        "v6e", BOOK, TPU, flops=dict(bf16=9.20e14, int8=1.84e15), hbm_bytes=32e9, hbm_bandwidth=1.6e12, axes=2, link_bandwidth=9e10,
        pod=(16, 16), cores=1, chips_per_host=8, pcie_bandwidth=3.2e10, dcn_bandwidth=1.25e10, generation="v6", label="v6e (Trillium)",
        menu="all",
        sources={
            "dcn_bandwidth": f"100 Gb/s a chip: {V7}, comparison table",
            "flops": f"{BOOK} (the vendor's page says 9.18e14: {V6E})",
        },
    ),
    # 1200 GB/s of ICI a chip, over six links and both directions: 100 GB/s one way. 16x24x24 is the 9,216-chip pod.
    _chip(
        "v7", V7, TPU | CUBES, flops=dict(bf16=2.307e15, fp8=4.614e15), hbm_bytes=192 * 2**30, hbm_bandwidth=7.38e12, link_bandwidth=1e11,
        pod=(16, 24, 24), pcie_bandwidth=None, dcn_bandwidth=1.25e10, generation="v6", label="v7 (Ironwood)", menu="all",
        sources={"dcn_bandwidth": V7, "pod": f"9,216 chips: {V7}", "pcie_bandwidth": NOWHERE},
    ),
    _chip("A100", A100, AMPERE, hbm_bytes=80e9, hbm_bandwidth=2.039e12, menu="all"),
    _chip("A100-40GB", A100, AMPERE, hbm_bytes=40e9, hbm_bandwidth=1.555e12, label="A100, 40 GB"),
    _chip("H100", H100, MEASURED_HOPPER, hbm_bytes=80e9, hbm_bandwidth=3.35e12),
    _chip("H100-500W", H100_500W, HOPPER, hbm_bytes=96e9, hbm_bandwidth=2.4e12, watts=500, generation="hopper", menu=""),
    _chip("H200", H200, MEASURED_HOPPER, hbm_bytes=141e9, hbm_bandwidth=4.8e12),
    _chip("B200", B200, BLACKWELL | B200_RATES | MEASURED_B200, hbm_bytes=180e9, hbm_bandwidth=7.7e12, dcn_bandwidth=5e10, watts=1000,
          serving=True, menu="all"),
    _chip("B300", B300, BLACKWELL | ULTRA_RATES, hbm_bytes=288e9, hbm_bandwidth=8e12, dcn_bandwidth=1e11, watts=1100, clock_exps=32,
          serving=True),
    _chip("GB200", GB200, RACK | RACK_RATES | MEASURED_B200, hbm_bytes=186e9, hbm_bandwidth=8e12, dcn_bandwidth=5e10, watts=1200),
    _chip("GB300", GB300, RACK | ULTRA_RACK_RATES, hbm_bytes=288e9, hbm_bandwidth=8e12, dcn_bandwidth=1e11, watts=1400, clock_exps=32),
    # Cards in pairs under an NVLink bridge: what lies beyond a pair goes through PCIe to a card that two of them share.
    _chip(
        "H100-PCIe", H100_PCIE, GPU | _rates(4096, bf16=7.56e14, int8=1.513e15, fp8=1.513e15, f32=5.1e13), hbm_bytes=80e9,
        hbm_bandwidth=2.0e12, fast_bytes=114 * 228 * KIB, link_bandwidth=3e11, pod=(2,), cores=114, dcn_bandwidth=2.5e10, watts=350,
        label="H100, PCIe",
        sources={
            "axes": "NVLink bridge between two cards",
            "pod": "two cards under one bridge",
            "chips_per_host": "eight in a server",
            "dcn_bandwidth": "one 400 Gb/s network card for two GPUs (NVIDIA, Enterprise Reference Architecture, PCIe Optimized 2-8-5); "
            "pairs of one server exchange at this rate here, which is less than their PCIe",
        },
    ),
    _chip("H800", H800, HOPPER, hbm_bytes=80e9, hbm_bandwidth=3.35e12, link_bandwidth=2e11),
    # Its tensor cores are throttled and its clock is not: shared memory reads at the boost clock, 1.98 GHz.
    _chip(
        "H20", H20, HOPPER | _rates(1.48e14 / (78 * 1.98e9), bf16=1.48e14, int8=2.96e14, fp8=2.96e14, f32=4.4e13), hbm_bytes=96e9,
        hbm_bandwidth=4.0e12, fast_bytes=78 * 228 * KIB, cores=78, watts=400, sources={"fast_bandwidth": f"{BANKS}, at 1.98 GHz"},
    ),
    _chip("MI300X", MI300X, AMD | _rates(2048, bf16=1.307e15, int8=2.615e15, fp8=2.615e15, f32=1.634e14), hbm_bytes=192e9,
          hbm_bandwidth=5.3e12, fast_bytes=304 * 64 * KIB, link_bandwidth=7 * 6.4e10, cores=304, watts=750),
    _chip("MI355X", MI355X, AMD | _rates(4096, 256, bf16=2.516e15, int8=5.033e15, fp8=5.033e15, fp4=1.0066e16, f32=1.573e14),
          hbm_bytes=288e9, hbm_bandwidth=8e12, fast_bytes=256 * 160 * KIB, link_bandwidth=7 * 7.68e10, cores=256, watts=1400),
    _chip(
        "Trn2", TRN2, GPU | dict(sources={}), kind="trn", names=("NeuronCore", "NeuronLink"),
        flops=dict(bf16=6.67e14, fp8=1.299e15, f32=1.81e14), hbm_bytes=96 * 2**30, hbm_bandwidth=2.9e12, fast_bytes=224 * MIB,
        fast_bandwidth=None, link_bandwidth=4 * 1.28e11, pod=(16,), cores=8, chips_per_host=16, pcie_bandwidth=None,
        dcn_bandwidth=2.5e10, watts=None, neighbours=4, clock_exps=None, label="Trainium 2",
        in_sheet="flops hbm_bytes hbm_bandwidth fast_bytes cores",
        sources={
            "link_bandwidth": f"1.28 TB/s both ways, six links ({TRN2}): four of 128 GB/s one way inside an instance, which count "
            "here, and two of 64 GB/s to other instances of an UltraServer, which do not (SemiAnalysis, Trainium2, 2024)",
            "axes": "a torus of 4x4 in fact, taken as one domain: its sixteen chips together reach all four links of each, "
            "four in a row reach two",
            "pod": f"sixteen chips of an instance: {TRN2_48}; an UltraServer joins four of them",
            "chips_per_host": TRN2_48,
            "dcn_bandwidth": f"3.2 Tb/s of EFA for sixteen chips: {TRN2_48}",
            **dict.fromkeys(("fast_bandwidth", "pcie_bandwidth", "watts"), NOWHERE),
        },
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
OF_SOURCES = Frozen(
    {
        "switch_adds": "NVLink SHARP came with the third NVSwitch, Hopper's",
        "clock_flops": "A100 and H100 whitepapers (1024 and 2048 multiply-adds a clock of an SM), Zadouri et al. 2026, FlashAttention-4, "
        "for Blackwell",
        "clock_exps": "16 a clock of an SM (CUDA C++ Programming Guide, arithmetic instructions); HGX B300 data sheet: twice those of "
        "a B200",
        "l2_bytes": "NVIDIA's whitepapers; B200: Austin et al. 2025, section 12",
        "hbm_cycles": "one load after another, at the address that the last one found: github.com/markdewing/AI_kernels, latency",
        "attains": "708 TFLOP/s of an MI300X (AMD, Measuring Max-Achievable FLOPs, part 2, 2025), and as much of an MI355X's; 1: not said",
        "streams": "4,177 GB/s that an MI300X must copy (AMD, Instinct Customer Acceptance Guide, BabelStream), as attains",
    }
)  # fmt: skip
"""Where the fields were read that only GPUs have, of all chips alike."""
BEFORE = re.compile(r"^(nvidia|amd|instinct|aws|google|cloud|tpu)[- ]*")


@formula
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


@formula
def menu(kind: str = "all") -> dict[str, str]:
    """The chips of a menu, in the order of the table: {name: label}. "planner" has those of all menus as well.

    >>> menu()["v7"], "GB200" in menu(), "GB200" in menu("planner")
    ('v7 (Ironwood)', False, True)
    """
    return {c.name: c.label or c.name for c in CHIPS.values() if c.menu in ("all", kind)}
