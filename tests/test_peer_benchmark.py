"""benchmarks/peer.py on runs that a stand-in of `helitune` writes: what it asks for, and what it makes of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from helitune.objectives.limits_record import MachineLimits

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"

STAND_IN = """
import json, os, sys
from pathlib import Path

sys.argv.remove("--json")
options = dict(zip(sys.argv[3::2], sys.argv[4::2]))
helion = options.get("--strategy") == "helion"
with open(os.environ["ASKED"], "a") as asked:
    print(json.dumps([Path.cwd().name, Path(sys.argv[2]).stem, options]), file=asked)
if "decode" in sys.argv[2]:
    print("helitune: no GPU to run it on", file=sys.stderr)
    sys.exit(3)
(run := Path(".helitune/runs/r1")).mkdir(parents=True)
(limits := Path(os.environ["HELITUNE_CACHE_DIR"]) / "limits").mkdir(exist_ok=True)
if not (limits / "gpu.json").exists():
    (limits / "gpu.json").write_text(json.dumps({"limits": LIMITS}))
    print("limits", file=open(os.environ["ASKED"], "a"))

def trial(id, at_s, score, origin):
    shapes = [{"ms": 0.02 * (score or 0), "base_ms": 0.02}]
    outcome = {"score": score, "shapes": shapes} if score else {"stage": "hang", "message": "no answer"}
    return {"id": id, "at_s": at_s, "elapsed_s": 9.0, "origin": origin, "config": {"of": id}, "acf": None, **outcome}

own = trial("own", 1.0, 1.0, "baseline own")
if helion:
    score = None if "rope" in sys.argv[2] else 0.75
    trials, peer = [own, trial("h", 70.0, score, "helion")], {"seconds": 60.0, "configs_tried": 150}
    if "quantize" in sys.argv[2]:  # a baseline won
        trials[1] = trial("h", 2.0, score, "baseline helion default")
        peer |= {"config": {"of": "h"}, "acf_sha256": ""}
    best = own if score is None else {**trials[1], "score": 0.74}
else:
    trials = [own, trial("a", 20.0, 0.9, "compileiq"), trial("x", 30.0, None, "compileiq"),
              trial("b", 50.0, 0.8, "compileiq"), trial("c", 80.0, 0.7, "compileiq")]
    best, peer = {**trials[-1], "score": 0.72}, None
(run / "trials.jsonl").write_text("".join(json.dumps(t) + "\\n" for t in trials))
(run / "run.json").write_text(json.dumps({"peer": peer} if peer else {}))
print(json.dumps({"run": "r1", "own": own, "best": best, "error": None}))
sys.exit(1 if best is own else 0)
"""
LIMITS = MachineLimits(4e12, 4e12, 4e12, {"f16": 8e14})


@pytest.fixture
def peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import peer

    script = tmp_path / "helitune"
    text = STAND_IN.replace("LIMITS}", f"{json.dumps(LIMITS.to_json())}}}")
    script.write_text(f"#!{sys.executable}\n{text}")
    script.chmod(0o755)
    monkeypatch.setattr(peer, "HELITUNE", [str(script)])
    monkeypatch.setenv("ASKED", str(tmp_path / "asked"))
    return peer


def test_both_searches_side_by_side(peer, tmp_path: Path, monkeypatch, capsys) -> None:  # type: ignore[no-untyped-def]
    out = tmp_path / "peer.json"
    names = "softmax,quantize_fp8,decode_gemv,rope"
    argv = ["peer.py", "--kernels", names, "--device", "3", "--time", "100s", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", argv)
    peer.main()

    lines = (tmp_path / "asked").read_text().splitlines()
    assert lines.count("limits") == 1
    asked = [json.loads(line) for line in lines if line != "limits"]
    # the order of the two changes from kernel to kernel; decode fails at once, and rope follows all the same
    order = [(who, kernel) for who, kernel, _ in asked]
    assert order[:4] == [
        ("helion", "softmax"),
        ("ours", "softmax"),
        ("ours", "quantize_fp8"),
        ("helion", "quantize_fp8"),
    ]
    assert order[4:] == [("helion", "decode_gemv"), ("ours", "rope"), ("helion", "rope")]
    common = {"--args": "f16[4096,2560]", "--seed": "1", "--acf-pack": "h200-seed", "--device": "3"}
    assert asked[0][2] == common | {"--strategy": "helion", "--effort": "quick"}
    assert asked[1][2] == common | {"--time": "100s", "--budget": "100000"}

    softmax, fp8, decode, rope = json.loads(out.read_text())["rows"]
    assert (softmax["helion_first"], fp8["helion_first"]) == (True, False)
    assert (softmax["helion_ratio"], softmax["ours_ratio"]) == (0.74, 0.72)
    assert fp8["helion_ratio"] == 0.74 and not fp8["error"]
    assert (softmax["helion_s"], softmax["helion_configs"]) == (60.0, 150)
    assert (softmax["ours_at_helion_s"], softmax["ours_reached_s"], softmax["ours_s"]) == (0.8, 80.0, 80.0)
    # 42 MB at 4 TB/s are 10.5 us; Helion's winner took 15
    assert softmax["helion_share"] == pytest.approx(41_943_040 / 4e12 / 15e-6)
    assert decode["error"] == "exit 3: helitune: no GPU to run it on"
    assert rope["error"] == "Helion's winner failed: hang: no answer"
    printed = capsys.readouterr().out.splitlines()
    assert printed[2] == (
        "| softmax `f16[4096,2560]` (Helion first) | 0.0200 | 0.740 | 60 | 70% | 0.800 | 0.720 | 80 | – |"
    )
    assert {line.count("|") for line in printed} == {10}


def test_what_was_never_reached_says_so(peer) -> None:  # type: ignore[no-untyped-def]
    row = peer.Row(
        "k", "f16[8]", False, own_ms=1.0, helion_ratio=0.5, helion_s=600.0, ours_ratio=0.6, ours_s=90.0
    )
    assert "| – (ended at 90 s) | 0.600 | never |" in peer.line(row)


def test_an_unknown_kernel_is_refused_with_the_known_ones() -> None:
    command = [sys.executable, str(BENCHMARKS / "peer.py"), "--kernels", "nothing"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and "no kernel nothing" in done.stderr and "softmax" in done.stderr
