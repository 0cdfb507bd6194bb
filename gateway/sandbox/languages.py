"""Engines of several languages as one."""

from collections.abc import Mapping

from gateway.domain.programs import Language, Program, ProgramResult, Redact
from gateway.ports.sandbox import Broker, Confinement, Engine, ToolRefused


class Engines:
    """Runs each program in the engine of its language."""

    def __init__(self, python: Engine, typescript: Engine | None = None) -> None:
        self._by_language: dict[Language, Engine] = {Language.PYTHON: python}
        if typescript is not None:
            self._by_language[Language.TYPESCRIPT] = typescript

    @property
    def languages(self) -> tuple[Language, ...]:
        """Those that there are."""
        return tuple(self._by_language)

    @property
    def language(self) -> str:
        """The one that is always there: `python`."""
        return Language.PYTHON.value

    @property
    def confinement(self) -> Confinement:
        """How the processes of that one are held."""
        return self.held(Language.PYTHON)

    @property
    def checks_types(self) -> bool:
        """Whether those of programs in that one are checked."""
        return self.checks(Language.PYTHON)

    def checks(self, language: Language) -> bool:
        """Whether the types of programs in one language are checked before they run."""
        return self._by_language[language].checks_types

    def held(self, language: Language) -> Confinement:
        """Return how the processes of one language are held."""
        return self._by_language[language].confinement

    async def run(self, program: Program, broker: Broker, *, redact: Redact) -> ProgramResult:
        """Run a program in its language."""
        return await self._by_language[program.language].run(program, broker, redact=redact)

    async def resume(
        self,
        parked: bytes,
        program: Program,
        broker: Broker,
        *,
        refused: Mapping[int, ToolRefused],
        redact: Redact,
    ) -> ProgramResult:
        """Let a program go on in its language."""
        engine = self._by_language[program.language]
        return await engine.resume(parked, program, broker, refused=refused, redact=redact)
