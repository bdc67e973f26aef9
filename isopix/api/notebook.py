"""Results as tables below a cell of a notebook."""

from isopix.core.table import Table


class TableOutput:
    """A result that is shown as a table: below the cell of a notebook whose last value it is, and printed."""

    def table(self) -> Table:
        """Return the table."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.table().text()

    def _repr_html_(self) -> str:
        return self.table().html()
