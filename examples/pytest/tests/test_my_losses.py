import pytest
from my_losses import grpo_loss


@pytest.mark.lossgate("my_losses:grpo_loss", loss_type="grpo", level="token", beta=[0, 0.04], dtype="float32")
def test_grpo():
    """A test for each beta: it passes where loss and gradient are those of the formula."""


def test_in_the_dtype_we_train_in(lossgate):
    for cell in lossgate.check(grpo_loss, loss_type="grpo", level="token", beta=0, dtype="bfloat16"):
        assert cell.gradient["ratio"] < 0.9, "hardly better than rounding allows"
