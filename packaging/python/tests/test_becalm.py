"""The Python package against the binary: every field of the JSON is known to it.

packaging/check runs this in a fresh virtual environment with nothing but the wheel:
python -m unittest discover -s tests
"""

import dataclasses
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import becalm

PROGRAM = os.path.realpath(shutil.which("ls") or "/bin/ls")


def unknown(value, where="report"):
    """The fields of the JSON that the package has no name for."""
    if dataclasses.is_dataclass(value):
        found = [f"{where}.{name}" for name in value.extra]
        for field in dataclasses.fields(value):
            if field.name != "extra":
                found += unknown(getattr(value, field.name), f"{where}.{field.name}")
        return found
    if isinstance(value, list):
        return [one for item in value for one in unknown(item, where + "[]")]
    if isinstance(value, dict):
        return [one for item in value.values() for one in unknown(item, where + "{}")]
    return []


class Reports(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name).resolve()

    def known(self, report):
        self.assertEqual(unknown(report, type(report).__name__), [])
        return report

    def test_check(self):
        report = self.known(becalm.check(PROGRAM, probes=True))
        program = report.programs[0]
        self.assertEqual(report.schema, "becalm/check/1")
        self.assertEqual(report.exit_status, 0)
        self.assertEqual(program.path, PROGRAM)
        self.assertEqual(program.storm.probes, len(program.probes))
        self.assertEqual(
            program.storm.misses, program.storm.missed_opens + program.storm.missed_stats
        )

    def test_check_of_files(self):
        report = self.known(becalm.check(PROGRAM, files=True))
        kinds = {one.path: one.kind for one in report.programs[0].files}
        self.assertEqual(kinds[PROGRAM], "program")
        self.assertIn("interpreter", kinds.values())

    def test_check_of_symbols(self):
        report = self.known(becalm.check(PROGRAM, symbols=True, bindings=True))
        symbols = report.programs[0].symbols
        self.assertEqual(symbols.undefined, [])
        self.assertTrue(any(one.symbol == "malloc" for one in symbols.bindings))

    def test_check_counts_the_misses_of_directories_that_are_searched(self):
        empty = self.folder / "empty"
        empty.mkdir()
        searched = becalm.check(PROGRAM, library_path=[empty]).programs[0]
        plain = becalm.check(PROGRAM, library_path="").programs[0]
        self.assertGreater(searched.storm.misses, plain.storm.misses)
        self.assertEqual(self.known(searched).unresolved, [])

    def test_a_path_that_does_not_exist_is_in_errors(self):
        report = self.known(becalm.check(PROGRAM, self.folder / "none"))
        self.assertEqual([one.path for one in report.errors], [str(self.folder / "none")])
        self.assertEqual(report.exit_status, 2)

    def test_a_wrong_flag_raises(self):
        with self.assertRaises(becalm.BecalmError) as raised:
            becalm.check(PROGRAM, args=["--no-such-flag"])
        self.assertEqual(raised.exception.status, 2)
        self.assertIn("--no-such-flag", raised.exception.message)

    def test_advise(self):
        report = becalm.advise(PROGRAM)
        self.assertEqual(unknown(report), [])
        self.assertEqual(report.path, PROGRAM)
        self.assertTrue(all(option.command.startswith("becalm ") for option in report.options))

    def test_doctor_without_and_with_an_index(self):
        report = becalm.doctor(index=self.folder / "none.so")
        self.assertEqual((report.calmed, report.exit_status), (False, 1))
        self.assertTrue(report.findings)
        made = self.folder / "index.so"
        becalm.index(output=made, programs=[PROGRAM])
        report = becalm.doctor(index=made)
        self.assertEqual(unknown(report), [])
        self.assertTrue(report.index.usable)
        self.assertGreaterEqual(report.index.programs, 1)

    def test_cache(self):
        report = becalm.cache(args=["--dry-run", "--clear"])
        self.assertEqual((unknown(report), report.cleared), ([], False))

    def test_pack(self):
        for refused in (
            lambda: becalm.pack(self.folder / "pack.tar", [self.folder / "never started"]),
            lambda: becalm.unpack(PROGRAM),
        ):
            with self.assertRaises(becalm.BecalmError) as caught:
                refused()
            self.assertEqual(caught.exception.status, 2)

    def test_survey(self):
        text = self.folder / "text"
        text.write_text("no program")
        shutil.copy(PROGRAM, self.folder / "one")
        lines = {line.path: line for line in becalm.survey(self.folder, self.folder / "none")}
        self.assertEqual([unknown(line) for line in lines.values()], [[]] * len(lines))
        storm = becalm.check(PROGRAM).programs[0].storm
        self.assertEqual(lines[str(self.folder / "one")].storm.objects, storm.objects)
        self.assertTrue(lines[str(self.folder / "none")].error)
        with self.assertRaises(becalm.BecalmError):
            list(becalm.survey(self.folder, args=["--no-such-flag"]))

    def test_trace(self):
        report = self.known(
            becalm.trace([PROGRAM, "--version"], syscalls=True, stdout=subprocess.DEVNULL)
        )
        image = report.images[-1]
        self.assertEqual(report.exit.code, 0)
        self.assertEqual(os.path.realpath(image.path), PROGRAM)
        if not report.opens_alone:
            self.assertTrue(image.reached_entry)
            self.assertEqual(image.storm.probes, len(image.probes))

    def test_index_verify_and_run(self):
        file = self.folder / "index.so"
        made = self.known(becalm.index(programs=PROGRAM, output=file, args=["--bind-threshold=0,0"]))
        self.assertTrue(made.written)
        self.assertTrue(file.exists())
        self.assertFalse(self.known(becalm.index(output=file, update=True)).written)
        self.assertEqual(self.known(becalm.verify(file)).indexes[0].differences, [])
        plain = subprocess.run([PROGRAM, "--version"], stdout=subprocess.PIPE)
        ran = becalm.run([PROGRAM, "--version"], index=file, stdout=subprocess.PIPE)
        self.assertEqual((ran.stdout, ran.returncode), (plain.stdout, 0))

    def test_fix_verify_and_undo(self):
        tool = self.folder / "store" / "tool"
        (tool / "bin").mkdir(parents=True)
        (tool / "lib").mkdir()
        shutil.copy2(PROGRAM, tool / "bin" / "ls")
        before = (tool / "bin" / "ls").read_bytes()
        store = self.folder / "store"
        fixed = self.known(becalm.fix(tool, strategy="audit", store=store))
        self.assertEqual(fixed.carrier, "audit")
        self.assertNotEqual((tool / "bin" / "ls").read_bytes(), before)
        self.known(becalm.verify(tool, store=store))
        self.known(becalm.undo(tool))
        self.assertEqual((tool / "bin" / "ls").read_bytes(), before)

    def test_bench(self):
        report = self.known(becalm.bench(PROGRAM, ["--version"], rounds=3))
        self.assertTrue(report.variants[-1].control)
        self.assertEqual(len(report.variants[0].wall_ns), 3)

    def test_the_module_is_the_command(self):
        ran = subprocess.run(
            [sys.executable, "-m", "becalm", "--version"], stdout=subprocess.PIPE, check=True
        )
        self.assertTrue(ran.stdout.startswith(b"becalm "))


class Decoding(unittest.TestCase):
    STORM = {"objects": 1, "search_dirs": 2, "probes": 3, "hits": 4, "missed_opens": 5, "hwcaps_misses": 0}

    def test_fields_of_a_newer_binary_are_kept(self):
        from becalm._decode import decode

        storm = decode(becalm.Storm, {**self.STORM, "missed_stats": 6, "new": [1]})
        self.assertEqual((storm.misses, storm.extra), (11, {"new": [1]}))

    def test_a_field_of_another_type_is_refused(self):
        from becalm._decode import decode

        for wrong in ["6", None, True, [6]]:
            with self.assertRaises(TypeError):
                decode(becalm.Storm, {**self.STORM, "missed_stats": wrong})
        with self.assertRaises(TypeError):
            decode(becalm.Storm, self.STORM)


if __name__ == "__main__":
    unittest.main()
