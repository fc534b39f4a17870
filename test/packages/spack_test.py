#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Goal: the Spack recipe offers Meson's options and needs Meson's dependencies.
Method: executes it with a stand-in for Spack's modules. Usage: spack_test.py SOURCE BUILD"""
import json
import pathlib
import re
import subprocess
import sys
import types

source, build = sys.argv[1:]
# What the recipe calls Meson's dependencies; the versions of these five count alike in both.
NAMES = {"libibverbs": "rdma-core", "librdmacm": "rdma-core", "boost": "boost", "libsodium": "libsodium",
         "nlohmann_json": "nlohmann-json", "CLI11": "cli11"}
ALIKE = {"boost", "libsodium", "nlohmann_json", "CLI11"}
FOR_THE_BUILD = {"cxx", "meson", "pkgconfig", "python"}
NO_PACKAGE = {"threads"}


def introspect(*what):
    return json.loads(subprocess.check_output(["meson", "introspect", *what], stderr=subprocess.DEVNULL))


class Recipe(types.ModuleType):
    """What the directives of the recipe say."""

    def __init__(self):
        super().__init__("spack.package")
        self.variants, self.needs, self.versions = {}, {}, []
        self.license = self.conflicts = lambda *words, **options: None
        self.version = self.versions.append
        self.__all__ = ["license", "version", "variant", "depends_on", "conflicts"]

    def variant(self, name, default, description):
        self.variants[name] = default

    def depends_on(self, spec, when=None, **_):
        name, _, least = spec.partition("@")
        self.needs[name] = (least.rstrip(":"), when)


class Spec:
    def __init__(self, on):
        self.on = on

    def satisfies(self, what):
        return what.removeprefix("+") in self.on


recipe = Recipe()
meson_module = types.ModuleType("spack_repo.builtin.build_systems.meson")
meson_module.MesonPackage = object
for name in "spack", "spack_repo", "spack_repo.builtin", "spack_repo.builtin.build_systems":
    sys.modules[name] = types.ModuleType(name)
sys.modules[recipe.__name__], sys.modules[meson_module.__name__] = recipe, meson_module
path = pathlib.Path(source, "lib/packaging/spack/spack_repo/lend/packages/lend/package.py")
names = {}
exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), names)  # pylint: disable=exec-used

wrong = []
project = introspect("--projectinfo", build)
if project["version"] not in recipe.versions:
    wrong.append(f"version {project['version']} is not in the recipe: {recipe.versions}")

options = {option["name"]: option for option in introspect("--buildoptions", f"{source}/meson.build")
           if option["section"] == "user" and option["type"] in ("combo", "feature")}
# Spack brings rdma-core, so nothing is to be loaded that may be absent. It makes no site.
features = set(options) - {"rdma_core", "docs"}
if features != set(recipe.variants):
    wrong.append(f"Meson's features are {sorted(features)}, the variants {sorted(recipe.variants)}")
for on in set(), set(recipe.variants):
    package = names["Lend"]()
    package.spec = Spec(on)
    said = dict(argument.removeprefix("-D").split("=") for argument in package.meson_args())
    if said["rdma_core"] != "system":
        wrong.append(f"rdma_core is {said['rdma_core']}")
    for name in features:
        if said.get(name) != ("enabled" if name in on else "disabled"):
            wrong.append(f"{name} is {said.get(name)} where the variants {sorted(on)} are on")

# The recipe builds no tests and no examples: what they need alone, meson.build asks for within an if.
of_library = set(re.findall(r"^\w+ = dependency\(\s*'(\w+)'", pathlib.Path(source, "meson.build").read_text("utf-8"),
                            re.MULTILINE))
asked = {dependency["name"]: dependency
         for dependency in introspect("--scan-dependencies", f"{source}/meson.build")
         if dependency["name"] in of_library - NO_PACKAGE}
for name, dependency in asked.items():
    if NAMES.get(name) not in recipe.needs:
        wrong.append(f"Meson asks for {name}, the recipe does not")
    elif name in ALIKE:
        least = re.sub(r"^>=", "", dependency["version"][0])
        if recipe.needs[NAMES[name]][0] != least:
            wrong.append(f"{name} {least} is the least for Meson, {recipe.needs[NAMES[name]][0]} for Spack")
for name in set(recipe.needs) - FOR_THE_BUILD - {NAMES[name] for name in asked if name in NAMES}:
    wrong.append(f"the recipe asks for {name}, Meson does not")
if wrong:
    sys.exit("\n".join(wrong))
