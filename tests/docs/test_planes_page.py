"""docs/planes.md says of planes that ask by gRPC what the product says."""

from gateway.domain.plane_reach import reach_of
from gateway.domain.planes import PlaneKind
from tests.docs.pages import ROOT, rows

PAGE = ROOT / "docs" / "planes.md"
KINDS = (PlaneKind.EXT_AUTHZ, PlaneKind.EXT_MCP, PlaneKind.EXT_PROC)


def test_what_such_a_plane_holds_is_on_the_page() -> None:
    table = {row["by gRPC"]: row for row in rows(PAGE, "by gRPC")}
    for kind in KINDS:
        reach = reach_of(kind)
        assert {thing: row[f"`{kind}`"] for thing, row in table.items()} == {
            thing: word.value for thing, word in reach.items()
        }
