"""The section `code` of `douane.yaml`: whether programs are run, and what one run may use."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from gateway.config.section import Section, written
from gateway.config.values import Duration, as_word
from gateway.domain.programs import KIBIBYTE, MEBIBYTE, SandboxLimits


class CodeLimits(Section):
    """What one run of a program may use. None can be switched off."""

    wall: Duration = written("30s")
    """From its start to its end, with the time its calls take, without that of people."""
    interpreter: Duration = written("5s")
    """Of that, in its own text."""
    memory: int = Field(default=64 * MEBIBYTE, ge=8 * MEBIBYTE)
    """Bytes of its values."""
    calls: int = Field(default=50, ge=1, le=1000)
    parallel: int = Field(default=8, ge=1, le=100)
    """Of its calls at once."""
    arguments_bytes: int = Field(default=256 * KIBIBYTE, ge=1024)
    result_bytes: int = Field(default=MEBIBYTE, ge=1024)
    console_bytes: int = Field(default=64 * KIBIBYTE, ge=1024)
    value_bytes: int = Field(default=256 * KIBIBYTE, ge=1024)
    code_bytes: int = Field(default=64 * KIBIBYTE, ge=1024, le=MEBIBYTE)
    parked_bytes: int = Field(default=16 * MEBIBYTE, ge=MEBIBYTE)
    """Of all that is kept of it while it waits for a person."""
    runs: int = Field(default=4, ge=1, le=1000)
    """Of one principal at once."""

    @property
    def value(self) -> SandboxLimits:
        """The domain's form."""
        return SandboxLimits(
            wall_s=self.wall,
            interpreter_s=self.interpreter,
            memory_bytes=self.memory,
            calls=self.calls,
            parallel=self.parallel,
            arguments_bytes=self.arguments_bytes,
            result_bytes=self.result_bytes,
            console_bytes=self.console_bytes,
            value_bytes=self.value_bytes,
            code_bytes=self.code_bytes,
            parked_bytes=self.parked_bytes,
            runs=self.runs,
        )


class Code(Section):
    enabled: bool = False
    """Whether `run_code` is there at `/mcp`; the scope `code:run` and policy say for whom."""
    jail: Literal["auto", "required"] = "auto"
    """`auto`: in a jail where there can be one, which `/readyz` tells; `required`: or not at all."""
    typescript: Annotated[Literal["off", "auto", "required"], BeforeValidator(as_word)] = "auto"
    """Whether programs may be in TypeScript: `auto`: where Deno is installed; `required`: or nothing
    starts. Python they may always be in."""
    typescript_check: bool = True
    """Whether the types of programs in TypeScript are checked before they run, which takes a jail.
    Those of programs in Python always are."""
    extract: Annotated[Literal["off", "client"], BeforeValidator(as_word)] = "off"
    """`client`: programs may have the model of their client read a text, where it offers one."""
    wait: Duration = written("1h")
    """For how long a program waits for a person."""
    limits: CodeLimits = written({})
