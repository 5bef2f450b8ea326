"""Published times to target and scores of AlgoPerf's leaderboard, for a test of performance profiles.

Source: mlcommons/submissions_algorithms, tech_report_v1, section 4: time_to_targets_00pct.csv and the rows of
relaxation 0 in scores_and_coverage.csv (nine workloads, seconds rounded to 0.1; the score is the normalised integral
of the profile over 100 even steps of tau from 1 to 4).
"""

from __future__ import annotations

from math import inf

WORKLOADS = (
    *("criteo1tb", "fastmri", "finewebedu_lm", "imagenet_resnet", "imagenet_vit"),
    *("librispeech_conformer", "librispeech_deepspeech", "ogbg", "wmt"),
)
TIMES = {
    "AdEMAMix (PyTorch)": (7839.2, 1517.7, 18025.9, inf, inf, 48894.9, inf, 6330.0, 17399.6),
    "Cautious NAdamW (JAX)": (inf, 1608.2, 25739.0, inf, inf, inf, inf, 4992.7, 14232.5),
    "Lion (PyTorch)": (inf, 1394.2, 23172.0, inf, inf, inf, inf, 7224.0, 15475.6),
    "Muon (JAX)": (inf, 1869.8, 20594.0, inf, 77162.9, inf, inf, inf, inf),
    "Muon (PyTorch)": (7141.6, inf, 15471.9, inf, inf, inf, inf, 1833.5, 14214.8),
    "NAdamW (JAX)": (7492.7, 1800.8, 25733.8, inf, 72015.6, inf, inf, inf, inf),
    "NAdamW (Baseline AlgoPerf v0.5) (JAX)": (8206.1, 1620.5, 20589.9, inf, inf, inf, inf, 4089.8, 14865.8),
    "NAdamW (Tuned for ResNet) (JAX)": (inf, 1920.5, 23163.0, inf, inf, inf, inf, 6349.5, inf),
    "Schedule-Free AdamW (PyTorch)": (10337.7, 1188.9, inf, inf, inf, inf, 40463.4, 3640.1, 19957.7),
    "Schedule-Free AdamW (JAX)": (inf, 2397.4, 12875.3, inf, 87468.9, inf, inf, 5447.0, 16161.2),
    "Schedule-Free AdamW v2 (JAX)": (8204.5, 1850.6, 15452.0, inf, 84891.8, inf, inf, 5444.0, inf),
    "Schedule-Free AdamW v2 (PyTorch)": (7480.6, 1128.8, inf, inf, inf, 55846.4, 41911.2, 6325.4, 10325.5),
    "Single Worker DiLoCo (JAX)": (inf, 2379.3, 28314.8, inf, inf, inf, inf, inf, inf),
    "Single Worker DiLoCo v2 (JAX)": (inf, 2578.1, 28314.0, inf, inf, inf, inf, inf, inf),
}
SCORES = {
    "AdEMAMix (PyTorch)": 0.5190796857463527,
    "Cautious NAdamW (JAX)": 0.31425364758698043,
    "Lion (PyTorch)": 0.27833894500561146,
    "Muon (JAX)": 0.2845117845117842,
    "Muon (PyTorch)": 0.4231200897867556,
    "NAdamW (JAX)": 0.384399551066217,
    "NAdamW (Baseline AlgoPerf v0.5) (JAX)": 0.4506172839506181,
    "NAdamW (Tuned for ResNet) (JAX)": 0.18574635241301896,
    "Schedule-Free AdamW (PyTorch)": 0.466891133557801,
    "Schedule-Free AdamW (JAX)": 0.4107744107744111,
    "Schedule-Free AdamW v2 (JAX)": 0.4405162738496074,
    "Schedule-Free AdamW v2 (PyTorch)": 0.5679012345679016,
    "Single Worker DiLoCo (JAX)": 0.1369248035914701,
    "Single Worker DiLoCo v2 (JAX)": 0.1301907968574634,
}
