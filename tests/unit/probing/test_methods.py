"""Every method selects on validation and reports on test; a plugin's says what it likes."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from isopix.probing import methods, minibatch
from isopix.probing.baselines import shuffled_label_baseline
from isopix.probing.methods import L2_PENALTY, KnnProbe, LbfgsProbe, RidgeProbe
from isopix.probing.minibatch import SgdProbe
from isopix.probing.probe import FittedProbe, ProbeMethod, probe_method
from isopix.probing.splits import FeatureSplits
from tests.unit.probing.cases import CONFIG, CPU, METHOD, METHODS, clusters, cut, easy, noise, run, stacked

each_method = pytest.mark.parametrize("method", METHODS, ids=lambda method: method.kind)


def test_the_best_layer_is_selected_on_validation_and_not_on_test() -> None:
    good = easy()
    lucky = replace(good, validation=replace(good.validation, features=noise(good.validation)))
    weak = good.map(lambda split: replace(split, features=split.features + 2 * noise(split)))
    result = run(stacked(lucky, weak))
    assert result.layers[0].test_accuracy > result.layers[1].test_accuracy
    assert result.best is result.layers[1]


@pytest.mark.parametrize(
    ("method", "values"),
    [
        (METHOD, METHOD.l2_grid),
        (RidgeProbe(l2_grid=(1e-3, 1e-1, 10.0)), (1e-3, 1e-1, 10.0)),
        (KnnProbe(), (10, 20, 50, 100, 120)),
    ],
)
def test_a_setting_is_selected_on_validation_the_largest_of_equals(
    method: ProbeMethod, values: tuple[float, ...]
) -> None:
    splits, score = easy(), run(easy(), method).best
    [name] = score.selected
    accuracies = {value: run(splits, method.fixed({name: value})).best.val_accuracy for value in values}
    best = max(accuracies.values())
    assert score.val_accuracy == best
    assert score.selected[name] == max(value for value, each in accuracies.items() if each == best)


@each_method
def test_easy_classes_are_clearly_above_shuffled_labels_whatever_they_are_called(method: ProbeMethod) -> None:
    splits = cut(*clusters(900, 6, 3, spread=1.5), 500, 100)
    result = run(splits, method)
    low, high = result.best.interval
    assert 0 < low < result.best.test_accuracy < high < 1
    assert shuffled_label_baseline(splits, method, CONFIG, device=CPU).best.interval[1] < low
    assert result == run(splits, method)
    assert run(splits.map(lambda split: replace(split, labels=split.labels * 7 + 3)), method) == result
    unseen = replace(splits, test=replace(splits.test, labels=torch.full_like(splits.test.labels, 9)))
    assert run(unseen, method).best.test_accuracy == 0


@each_method
def test_a_layer_does_not_depend_on_the_others(method: ProbeMethod, monkeypatch: pytest.MonkeyPatch) -> None:
    features, labels = clusters(300, 6, 3, spread=2.0)
    splits = cut(torch.cat([features, features.flip(2) * features, -features.exp()]), labels)
    together = run(splits, method)
    for module in (methods, minibatch):
        monkeypatch.setattr(module, "MAX_BYTES", 1)
    apart = run(splits, method)
    for one, other in zip(together.layers, apart.layers, strict=True):
        for name in ("layer", "selected", "test_accuracy"):
            assert getattr(one, name) == getattr(other, name)
        assert one.fit.get("objective", 0) == pytest.approx(other.fit.get("objective", 0), rel=1e-5)
    if method.kind == "adam":  # each layer stops as if it were alone
        steps = [each.fit["iterations"] for each in together.layers]
        assert len(set(steps)) > 1
        assert steps == [each.fit["iterations"] for each in apart.layers]


def test_a_value_at_the_edge_of_the_grid_causes_a_warning() -> None:
    method = SgdProbe(iterations=60, lr_grid=(1e-3, 1e-4))
    [warning] = run(stacked(easy(), easy()), method).warnings
    assert warning.startswith("layers 0, 1: the selected learning rate is at the edge of the grid (0.0001 to")


def test_extra_penalties_are_tried_only_where_the_smallest_was_selected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    features, labels = clusters(300, 6, 3, spread=2.0)
    hard = cut(features[..., :1] + 1e-3 * features, labels)  # copies of a feature
    weak, shapes = (1e-7, 1e-6, 1e-5), []
    whole = run(hard, LbfgsProbe(l2_grid=(*weak, *METHOD.l2_grid)))
    monkeypatch.setattr(methods, "L2_GRID", METHOD.l2_grid)
    monkeypatch.setattr(methods, "L2_EXTRA", weak)
    staged = run(hard)
    assert staged.best.selected[L2_PENALTY] in weak
    assert staged.best == whole.best
    fit = methods.fit_logistic

    def spy(x, y, l2, **named):
        shapes.append(tuple(l2.shape))
        return fit(x, y, l2, **named)

    monkeypatch.setattr(methods, "fit_logistic", spy)
    both = run(stacked(easy(), hard))
    assert shapes == [(2, 3), (1, 3)]
    assert both.layers[1].test_accuracy == staged.best.test_accuracy


def seven_layers(best: int) -> FeatureSplits:
    """Seven layers of which only one depends on the classes."""
    good = easy()
    lost = good.map(lambda split: replace(split, features=noise(split)))
    found = good if best == 0 else lost
    for layer in range(1, 7):
        found = stacked(found, good if layer == best else lost)
    return found


@pytest.mark.parametrize(
    ("best", "layers"), [(0, range(5)), (1, range(5)), (3, range(1, 6)), (5, range(2, 7)), (6, range(2, 7))]
)
def test_five_layers_around_the_best_are_concatenated(best: int, layers: range) -> None:
    splits = seven_layers(best)
    result = run(splits, config=replace(CONFIG, concat=5))
    joined = splits.map(
        lambda split: replace(split, features=torch.cat([split.features[i] for i in layers], 1)[None])
    )
    assert result.best_index == best
    assert result.concat is not None
    assert result.concat.layers == tuple(layers)
    assert replace(result.concat.score, layer=0) == run(joined).best
    assert result.layers == run(splits).layers


def test_intervals_resample_groups_of_test_images() -> None:
    """Each test image three times: the accuracy is the same, and so is the interval of the originals."""
    splits = easy()
    groups = torch.arange(len(splits.test)).repeat(3)
    tripled = replace(splits.test.select(groups), groups=groups)
    once, thrice = run(splits), run(replace(splits, test=tripled))
    assert thrice.best.interval == pytest.approx(once.best.interval)
    assert (once.num_test_groups, thrice.num_test_groups) == (None, len(splits.test))
    plain = run(replace(splits, test=replace(tripled, groups=None))).best.interval
    assert plain[1] - plain[0] < 0.8 * (once.best.interval[1] - once.best.interval[0])


def test_a_method_of_a_plugin_selects_and_reports_what_it_likes() -> None:
    class Anything(ProbeMethod):
        """Guesses the first class."""

        kind = "anything"

        def grid(self) -> dict[str, tuple[float, ...]]:
            return {"shrinkage": (0.1, 0.5), "degree": (1, 2, 3)}

        def fit_layers(self, problem):
            for _ in problem.splits.train.features:
                guess = torch.tensor([1.0] + [0.0] * (len(problem.classes) - 1))
                yield FittedProbe(
                    torch.tensor([0.5]),
                    lambda features, guess=guess: guess.expand(1, features.shape[1], -1),
                    selected=[{"shrinkage": 0.5, "degree": 2}],
                    fit=[{"condition number": 12.5}],
                )

    result = run(stacked(easy(), easy()), Anything())
    assert [dict(each.selected) for each in result.layers] == [{"shrinkage": 0.5, "degree": 2}] * 2
    assert result.best.fit == {"condition number": 12.5}
    assert [each.split("is at")[0] for each in result.warnings] == ["layers 0, 1: the selected shrinkage "]


def test_an_unconverged_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(methods, "fit_logistic", partial(methods.fit_logistic, max_iterations=1))
    with pytest.raises(RuntimeError, match=r"^layer 0: the fit with L2 penalty 0.001 did not converge"):
        run(easy(), LbfgsProbe(l2_grid=(1e-3,)))


def one_class(splits: FeatureSplits) -> FeatureSplits:
    return splits.map(lambda split: replace(split, labels=torch.zeros_like(split.labels)))


def broken(splits: FeatureSplits) -> FeatureSplits:
    splits.validation.features[0, 3, 2] = torch.nan
    return splits


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (one_class, "the train split has images of one class only"),
        (broken, "features of layer 0 are not finite in the validation split"),
    ],
)
def test_features_that_cannot_be_probed_are_refused(change, message: str) -> None:
    with pytest.raises((ValueError, RuntimeError), match=message):
        run(change(easy()))


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("lbfgs", ("iterations=3",), "unknown setting 'iterations'; settings: kind, l2_grid"),
        ("lbfgs", ("l2_grid=[0.0]",), "l2_grid .* must be one or more positive numbers"),
        ("sgd", ("lr_grid=[1.0, 3.0]",), "lr_grid .* in descending order"),
        ("adam", ("tolerance=-0.1",), "tolerance is -0.1; allowed: 0 or more and below 1"),
    ],
)
def test_wrong_methods_and_settings_are_refused(kind: str, settings: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        probe_method(kind, settings)
