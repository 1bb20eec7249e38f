"""A candidate's name: the same in every run and on every machine."""

from __future__ import annotations

import pickle
from pathlib import Path

from helitune.acfs.acf import NO_ACF, Acf
from helitune.search.candidate import Candidate, canonical

CONFIG = {"num_warps": 8, "block_sizes": [4], "range_flattens": [None, True], "pid_type": "flat"}
ACF = Acf("softmax.acf", "ab" * 32, Path("/pack/softmax.acf"))


def test_the_id_is_a_format_contract() -> None:
    # runs and pins written earlier hold these: changing them makes every stored trial unknown
    assert Candidate.of(CONFIG).id == "3bad0adc6cc076c3"
    assert Candidate.of(CONFIG, ACF).id == "44a38554b78ce002"


def test_the_canonical_text_is_a_format_contract() -> None:
    assert canonical(CONFIG) == (
        '{"block_sizes":[4],"num_warps":8,"pid_type":"flat","range_flattens":[null,true]}'
    )


def test_the_id_does_not_depend_on_order_or_on_tuples() -> None:
    shuffled = dict(reversed(CONFIG.items())) | {"block_sizes": (4,)}
    assert Candidate.of(shuffled) == Candidate.of(CONFIG)


def test_the_id_depends_on_the_acfs_content_only() -> None:
    renamed = Acf("other.acf", ACF.sha256, Path("/elsewhere/other.acf"), ("sm_90",), "13.3")
    changed = Acf(ACF.name, "cd" * 32, ACF.path)
    assert Candidate.of(CONFIG, renamed).id == Candidate.of(CONFIG, ACF).id
    assert len({Candidate.of(CONFIG, acf).id for acf in (NO_ACF, ACF, changed)}) == 3


def test_booleans_and_integers_make_different_candidates() -> None:
    assert Candidate.of({"flatten": True}).id != Candidate.of({"flatten": 1}).id


def test_config_is_a_copy() -> None:
    candidate = Candidate.of(CONFIG)
    candidate.config["block_sizes"].append(8)
    assert candidate.config == CONFIG


def test_it_survives_pickling_and_is_a_dictionary_key() -> None:
    candidate = Candidate.of(CONFIG, ACF)
    assert {candidate: 1}[pickle.loads(pickle.dumps(candidate))] == 1
