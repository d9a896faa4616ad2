"""Run folders as versions without checksums left them: tests edit their files."""

from icl import checksums


def unsealed(folder):
    """The folder, whose text files may be edited from here on."""
    (folder / "checksums.sha256").unlink(missing_ok=True)
    return folder


def without_checksum(file):
    """The file, without what our files have at their end."""
    content = file.read_bytes()
    file.write_bytes(checksums.checked(content, None).content)
    return file
