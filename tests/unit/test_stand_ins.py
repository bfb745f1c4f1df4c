"""What stands in for parts of torch answers as they do; the test looks at a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from checkpoints import TINY, write_settings

_NAMING = """
import sys
from pathlib import Path
from voxcli.engine.native import stand_ins
stand_ins.stand_in()
import torch
from voxcli.engine.native.program import Program
from voxcli.models.voxcpm2.loading import load_shapes

with torch.inference_mode():
    model = load_shapes(Path(sys.argv[1]), torch.float32)
    program = Program(model, torch.device("meta"), 3, 100)
    for function in program.with_all_kernels([(4, True)]):
        function()
print(program.state.hidden.shape == (12, 2, model.config.lm.hidden_size))
print("sympy.core" in sys.modules, "torch._dynamo.config" in sys.modules)
"""

_MORE = """
from torch.fx.experimental.symbolic_shapes import ShapeEnv
import sympy
import sympy.core
print(ShapeEnv.__module__, sympy.Symbol("n").is_symbol)
"""


def test_tensors_without_data_import_no_symbols_and_who_asks_for_more_gets_it(
    tmp_path: Path,
) -> None:
    write_settings(tmp_path, TINY)
    done = subprocess.run(
        [sys.executable, "-c", _NAMING + _MORE, str(tmp_path)],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "True", "False False", "torch.fx.experimental.symbolic_shapes True",
    ]  # fmt: skip
