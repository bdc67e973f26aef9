"""Clusters: what `--devices` may be, and the time of messages, by hand."""

import pytest

from isopix.analysis.cluster import Cluster, parse_cluster

H100 = 0.4 * 989e12


def test_a_cluster_has_nodes_of_up_to_eight_devices() -> None:
    found = parse_cluster("64xH100", "bf16")
    assert (found.nodes, found.per_node, found.num_devices) == (8, 8, 64)
    assert (found.flops, found.memory, found.name) == (pytest.approx(H100), 80 * 10**9, "64xH100")
    assert [parse_cluster(f"{n}xH100", "bf16")[1:3] for n in (1, 8, 12, 14, 11)] == [
        (1, 1),
        (1, 8),
        (2, 6),
        (2, 7),
        (11, 1),
    ]


def test_a_ring_is_as_fast_as_its_slowest_link() -> None:
    """Of NVLink at 450 GB/s, and of a node's eight adapters at 50 GB/s, 80 % is reached."""
    assert parse_cluster("8xH100", "bf16").bandwidth == pytest.approx(0.8 * 450e9)
    assert parse_cluster("16xH100", "bf16").bandwidth == pytest.approx(0.8 * 400e9)
    assert parse_cluster("16xH100", "bf16", node_bandwidth=25e9).bandwidth == pytest.approx(0.8 * 25e9)
    assert parse_cluster("16xH100", "bf16", node_bandwidth=900e9).bandwidth == pytest.approx(0.8 * 450e9)
    assert parse_cluster("16xL4", "bf16", node_bandwidth=10e9).bandwidth == pytest.approx(0.8 * 10e9)


def test_names_are_found_in_any_case_and_a_number_alone_is_of_the_own_device() -> None:
    names = [parse_cluster(text, "fp32").device for text in ("4 x h100pcie", "4xA100-40GB", " 2xRTX_4090 ")]
    assert names == ["H100 PCIe", "A100 40GB", "RTX 4090"]
    assert parse_cluster("8", "bf16", own_device="H200").name == "8xH200"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("64H100", "devices '64H100'; allowed: a number of at least 1, x, and a device, as in 64xH100"),
        ("0xH100", "allowed: a number of at least 1"),
        ("-2xH100", "allowed: a number of at least 1"),
        ("", "devices ''; allowed: a number"),
        ("8xFOO", "devices '8xFOO': no bf16 peak and links of 'FOO' are known; allowed: B200, H200, H100"),
        ("8xTPUv3 core", "links of 'TPUv3 core' are known"),
        (
            "8",
            "devices '8' names no device, and this machine's has no data sheet here; allowed: 8xNAME, of B",
        ),
        (
            "16xL4",
            "devices L4: no network between nodes is known; give its node_bandwidth, or at most 8 devices",
        ),
    ],
)
def test_what_is_not_a_cluster_is_refused_with_what_is_allowed(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=r"\A[^\n]*\Z") as caught:
        parse_cluster(text, "bf16")
    assert told in str(caught.value)


@pytest.mark.parametrize("wrong", [0.0, -1.0, float("inf"), float("nan")])
def test_a_bandwidth_is_positive_and_finite(wrong: float) -> None:
    with pytest.raises(ValueError, match=r"node_bandwidth is \S+ GB/s; allowed: a finite number above 0"):
        parse_cluster("16xH100", "bf16", node_bandwidth=wrong)


def test_the_time_of_messages_is_that_of_bytes_and_hops() -> None:
    """Two nodes of two. A gather of 400 bytes: each device sends 300, at 100 a second; the ring has two hops
    of 1 s in nodes and one of 10 s between them. An all-reduce is twice that, with trees of 1 + 10 s.
    """
    four = Cluster("some", 2, 2, 1.0, 1, 1.0, bandwidth=100.0, hop=1.0, network_hop=10.0)
    assert four.sent(400) == 300
    assert four.gather_seconds(400) == 3 + 12
    assert four.gather_seconds(400, messages=2) == 3 + 24
    assert four.all_reduce_seconds(400) == 6 + 2 * 11


def test_one_device_sends_nothing() -> None:
    one = parse_cluster("1xH100", "bf16")
    assert (one.sent(10**9), one.gather_seconds(10**9, 5), one.all_reduce_seconds(10**9, 5)) == (0, 0, 0)
