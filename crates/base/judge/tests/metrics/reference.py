"""Metrics computed by numpy. Reads pairs of tensors from standard input, writes one JSON document.

A pair is a line of JSON (dtype, numel, bytes, tolerances), then the bytes of the dump, then those of the golden.
Dtypes that numpy lacks come from ml_dtypes and are left out without it. Exit status 3: there is no numpy.
"""
import json
import sys

try:
    import numpy as np
except ImportError:
    sys.exit(3)
try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

FROM_ML_DTYPES = {"bfloat16": "bfloat16", "float8_e4m3fn": "float8_e4m3fn", "float8_e5m2": "float8_e5m2",
                  "float4_e2m1": "float4_e2m1fn", "float8_e4m3fnuz": "float8_e4m3fnuz",
                  "float8_e5m2fnuz": "float8_e5m2fnuz", "float8_e8m0fnu": "float8_e8m0fnu"}
# Complex numbers are compared by parts.
PARTS = {"complex64": "float32", "complex128": "float64"}


def nibbles(raw, numel):
    return np.stack([raw & 15, raw >> 4], axis=1).reshape(-1)[:numel]


def load(dtype, raw, numel):
    """The bits and the values of the dtype."""
    raw = np.frombuffer(raw, np.uint8)
    if dtype in ("int4", "float4_e2m1"):
        raw = nibbles(raw, numel)
    if dtype == "int4":
        return raw, ((raw.astype(np.int8) ^ 8) - 8).astype(np.int8)
    if dtype in FROM_ML_DTYPES:
        if not hasattr(ml_dtypes, FROM_ML_DTYPES[dtype]):
            return None, None
        values = raw.view(getattr(ml_dtypes, FROM_ML_DTYPES[dtype]))
    else:
        values = raw.view(PARTS.get(dtype, dtype))
    return raw.view(f"uint{values.dtype.itemsize * 8}"), values


def specials(values):
    return {"nan": int(np.isnan(values).sum()), "positive_infinity": int((values == np.inf).sum()),
            "negative_infinity": int((values == -np.inf).sum()), "zeros": int((values == 0).sum())}


def total(values):
    """The sum in extended precision if available, so that the reference is at least as exact as the tested code."""
    return float(values.astype(np.longdouble).sum())


def metrics(head, dump_bits, dump, golden_bits, golden):
    a, g = dump.astype(np.float64), golden.astype(np.float64)
    measured = np.isfinite(a) & np.isfinite(g)
    both_nan = np.isnan(a) & np.isnan(g)
    mismatched = ~measured & ~both_nan & ~(a == g)
    if dump.dtype in (np.int64, np.uint64):
        exact = np.where(dump > golden, dump.astype(np.uint64) - golden.astype(np.uint64),
                         golden.astype(np.uint64) - dump.astype(np.uint64))
    else:
        exact = np.abs(np.where(measured, a, 0) - np.where(measured, g, 0))
    error = exact.astype(np.float64)
    outside = measured & ~(error <= head["atol"] + head["rtol"] * np.abs(g))
    kept, ma, mg = error[measured], a[measured], g[measured]
    large = (np.abs(mg) >= head["small"]) & (mg != 0)
    relative = kept[large] / np.abs(mg[large])
    dump_norm, golden_norm = total(ma * ma) ** 0.5, total(mg * mg) ** 0.5
    return {
        "dump": specials(a), "golden": specials(g), "measured": int(measured.sum()),
        "mismatched": int(mismatched.sum()), "failing": int(outside.sum() + mismatched.sum()),
        "differing": int((dump_bits != golden_bits).sum()), "worst": int(np.argmax(exact)) // (2 if head["dtype"] in PARTS else 1),
        "max_abs": float(kept.max()), "mean_abs": total(kept) / len(kept),
        "rmse": (total(kept * kept) / len(kept)) ** 0.5,
        "relative_count": int(large.sum()), "max_relative": float(relative.max()),
        "mean_relative": total(relative) / len(relative),
        "dump_norm": dump_norm, "golden_norm": golden_norm,
        "cosine": total(ma * mg) / (dump_norm * golden_norm),
    }


def main():
    answers = {}
    while line := sys.stdin.buffer.readline():
        head = json.loads(line)
        sides = []
        for _ in range(2):
            sides.extend(load(head["dtype"], sys.stdin.buffer.read(head["bytes"]), head["numel"]))
        if sides[1] is not None:
            answers[head["dtype"]] = metrics(head, *sides)
    versions = {"numpy": np.__version__, "ml_dtypes": getattr(ml_dtypes, "__version__", None)}
    json.dump({"made_with": versions, "dtypes": answers}, sys.stdout)


np.seterr(all="ignore")
main()
