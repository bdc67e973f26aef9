from isopix.core.command_line import command_line


def test_words_are_quoted_where_a_shell_would_split_them() -> None:
    assert command_line("probe", "my run", "a$b") == "isopix probe 'my run' 'a$b'"
