// node run.mjs PYODIDE_FOLDER (-m MODULE | SCRIPT): one Python program, in this folder.
import { writeSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [home, ...program] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(join(home, "pyodide.mjs")));
const seed = process.env.PYTHONHASHSEED ?? "random";
const python = await loadPyodide({
  env: { HOME: "/", PYTHONHASHSEED: seed, PYTHONDONTWRITEBYTECODE: "1" },
});
const folder = process.cwd();
python.FS.mkdirTree(folder);
python.mountNodeFS(folder, folder);
const to = (stream) => ({ write: (bytes) => writeSync(stream, bytes) });
python.setStdout(to(1));
python.setStderr(to(2));
python.globals.set("folder", folder);
python.globals.set("program", python.toPy(program));
process.exitCode = python.runPython(`
import os, runpy, sys
os.chdir(folder)
sys.path.insert(0, folder)
sys.argv = program[1:] if program[0] == "-m" else program
status = 0
try:
    if program[0] == "-m":
        runpy.run_module(program[1], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(program[0], run_name="__main__")
except SystemExit as end:
    status = end.code or 0
sys.stdout.flush()
status
`);
