"""Installs packages for code with uv, beside those of the Python that runs kernels.

uv makes its plan without knowing what the kernel needs, so nothing is downgraded for the kernel's
sake. A plan that breaks the kernel's requirements is not carried out.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

DIST = re.compile(r"([^-]+)-([^-]+)(?:-py[\d.]+)?\.(?:dist|egg)-info")
# uv's lines about a plan, which it repeats when it installs.
OF_PLAN = ("Using ", "Resolved ", "Checked ", "Would ", " + ", " - ", " ~ ")


def normalized(name):
    return re.sub(r"[-_.]+", "-", name).lower()


class Distribution:
    """An installed package."""

    def __init__(self, path, version, metadata):
        self.path, self.version, self.metadata = path, version, metadata

    @property
    def requires(self):
        header = self.metadata.read_text(errors="replace").split("\n\n")[0]
        lines = re.findall(r"^Requires-Dist: *(.+)", header, re.MULTILINE)
        return [line for line in lines if "extra" not in line.partition(";")[2]]


def distributions(*folders):
    """The packages in folders by their normalized names. The first folder takes precedence."""
    found = {}
    for folder in reversed(folders):
        for path in Path(folder).iterdir() if os.path.isdir(folder) else ():
            match = DIST.fullmatch(path.name)
            for file in (path / "METADATA", path / "PKG-INFO", path) if match else ():
                if file.is_file():
                    found[normalized(match[1])] = Distribution(path, match[2], file)
    return found


def closure(names, known):
    """The names of packages and of all their dependencies that are there."""
    seen = set()
    while names:
        name = names.pop()
        if name in seen or name not in known:
            continue
        seen.add(name)
        names += [normalized(re.match(r"[\w.-]+", line)[0]) for line in known[name].requires]
    return seen


class Installer:
    def __init__(self, settings):
        self.uv, self.options = settings["uv"], settings["options"]
        self.site = Path(settings["site"])
        self.prefix = self.site.parents[2]
        self.requirements = settings["requirements"]
        self.names = {normalized(name) for name in settings["names"]}
        added = distributions(self.site, *settings["shared"])
        known = distributions(*sys.path) | added
        # ipybox works with the installed ipykernel, and with any other packages that this one works
        # with.
        own = [f"ipykernel=={known[name].version}" for name in ("ipykernel",) if name in known]
        self.rules = [*settings["kernel"], *own]
        self.of_kernel = closure([re.match(r"[\w.-]+", rule)[0] for rule in self.rules], known)
        # The rest of a managed environment is the gateway's, and may be missing from the next one.
        self.known = {
            name: known[name]
            for name in known
            if not settings["managed"] or name in added or name in self.of_kernel
        }

    def start(self, prefix, *args, **options):
        python = ["--python", sys.executable, "--prefix", prefix]
        return subprocess.Popen(
            [self.uv, "pip", "install", *python, *self.options, *args],
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            **options,
        )

    def make_view(self):
        """Makes a folder that shows uv what code can import."""
        site = "view" / self.site.relative_to(self.prefix)
        for dist in self.known.values():
            copy = site / dist.path.name
            copy.mkdir(parents=True, exist_ok=True)
            for file in (dist.metadata, dist.path / "direct_url.json"):
                if file.is_file():
                    shutil.copyfile(file, copy / file.name)

    def plan(self):
        """The versions to install by name, or None without a plan, which uv has explained."""
        args = ("--dry-run", "--output-format", "json", "--", *self.requirements)
        with self.start("view", *args, stdout=subprocess.PIPE) as uv:
            pass_on(uv.stderr, OF_PLAN)
            text = uv.stdout.read()
        if uv.returncode:
            return None
        changes = json.loads(text)["changes"]
        return {
            normalized(change["name"]): change["version"]
            for change in changes
            if change["action"] == "installed"
        }

    def conflict(self, plan):
        """The kernel, or its package, whose requirement a plan would break, and that
        requirement."""
        if self.of_kernel.isdisjoint(plan):
            return None
        from packaging.requirements import Requirement

        needs = [("the kernel", rule) for rule in self.rules]
        for name in sorted(self.of_kernel - plan.keys()):
            needs += [(name, line) for line in self.known[name].requires]
        for dependent, line in needs:
            needed = Requirement(line)
            version = plan.get(normalized(needed.name))
            applies = needed.marker is None or needed.marker.evaluate()
            if version and applies and not needed.specifier.contains(version, prereleases=True):
                return dependent, needed
        return None

    def explain(self, plan, dependent, needed):
        """One sentence on a conflict. Only uv knows what packages need that are not installed."""
        name = normalized(needed.name)
        rule = f"{needed.name}{needed.specifier}"
        pins = [f"{other}=={version}" for other, version in plan.items() if other != name]
        Path("rule.txt").write_text(rule)
        args = ("--dry-run", "--constraints", "rule.txt", "--", *pins)
        with self.start("view", *args, stdout=subprocess.DEVNULL) as uv:
            text = uv.stderr.read()
        asker, ranges = r"([\w.-]+?)(?:[=<>]\S+)?", rf"(?:one of:\s+(?:{name}\S*\s+)*)?({name}\S*)"
        found = re.search(rf"{asker} depends? on {ranges}\s+and", text)
        needs = f"needs {rule} and has {self.known[name].version}"
        if found is None:
            kernel = (
                "the kernel, which"
                if dependent == "the kernel"
                else f"the kernel, whose {dependent}"
            )
            return f"{name} {plan[name]} does not go with {kernel} {needs}"
        its = dependent if dependent == "the kernel" else f"the kernel's {dependent}"
        return (
            f"{found[1]} needs {found[2]}, but {its} {needs}: ask for another version of {found[1]}"
        )

    def install(self, plan):
        repositories = [text for text in self.requirements if "git+" in text]
        pins = [f"{name}=={version}" for name, version in plan.items()]
        args = ("--no-deps", "--compile-bytecode", "--", *repositories, *pins)
        with self.start(self.prefix, *args) as uv:
            pass_on(uv.stderr, ("Using ",))
        return uv.returncode

    def mark(self, plan):
        """Marks requested packages and not their dependencies: uv marks everything as requested."""
        for name, dist in distributions(self.site).items():
            marker = dist.path / "REQUESTED"
            if name in self.names:
                marker.touch()
            elif name in plan and not (dist.path / "direct_url.json").exists():
                marker.unlink(missing_ok=True)

    def loosen(self):
        """Makes programs run with the kernel's current Python, whose path changes with an
        upgrade."""
        python = sys.executable.encode()
        starts = {
            b"#!" + python: b"#!/usr/bin/env python",
            b"#!/bin/sh\n'''exec' '" + python + b"'": b"#!/bin/sh\n'''exec' 'python'",
        }
        folder = self.prefix / "bin"
        for path in folder.iterdir() if folder.is_dir() else ():
            if not path.is_file():
                continue
            with path.open("rb") as file:
                if file.read(2) != b"#!":
                    continue
                text = b"#!" + file.read()
            for old, new in starts.items():
                if text.startswith(old):
                    path.write_bytes(new + text[len(old) :])

    def summary(self, plan):
        """One line about the installed packages, and those already there."""
        found = distributions(self.site)
        marked = {name for name, dist in found.items() if (dist.path / "REQUESTED").exists()}
        asked = sorted(plan.keys() & marked)
        others = len(plan) - len(asked)
        there = sorted(self.names & self.known.keys() - plan.keys())
        kept = sorted(self.of_kernel & plan.keys())
        installed = [", ".join(f"{name} {plan[name]}" for name in asked)] if asked else []
        if others:
            need = " that it needs" if len(asked) == 1 else " that they need" if asked else ""
            installed.append(f"{others} package{'s' if others > 1 else ''}{need}")
        parts = [f"Installed {' and '.join(installed)}"] if installed else []
        if there:
            parts.append(f"{self.titles(there)} {'is' if len(there) == 1 else 'are'} already there")
        if kept:
            parts.append(f"running kernels keep {self.titles(kept)} until they are reset")
        return "; ".join(parts) or "Nothing had to be installed"

    def titles(self, names):
        """Packages, with the versions that they had before."""
        return ", ".join(f"{name} {self.known[name].version}" for name in names)


def pass_on(lines, without):
    for line in lines:
        if not line.startswith(without):
            print(line, end="", flush=True)


def main():
    order = json.loads(Path("install.json").read_text())
    os.environ.update(order["env"])
    installer = Installer(order)
    installer.make_view()
    plan = installer.plan()
    if plan is None or (plan and "--offline" in installer.options):
        return 1
    if conflict := installer.conflict(plan):
        print(installer.explain(plan, *conflict))
        return 1
    if plan and (code := installer.install(plan)):
        return code
    installer.mark(plan)
    installer.loosen()
    print(installer.summary(plan))
    return 0


sys.exit(main())
