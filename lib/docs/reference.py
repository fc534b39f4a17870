# SPDX-License-Identifier: MIT OR Apache-2.0
"""The reference: a page for each room, with a section for each header, from Doxygen's XML. Breathe
takes a header's section from the XML of that file, to which all that the header declares is moved."""
import re
import textwrap
import xml.etree.ElementTree as etree

# What a header says of itself that programs have no use for.
INTERNAL = re.compile(r"Not for\s+programs|For the headers\s+beside\s+it|For\s+`\w+\.hpp`|^The body of")
PUBLIC = ("lend", "lend::asio")


def said_of(header):
    """What a header says of itself in its first lines."""
    lines = header.read_text(encoding="utf-8").splitlines()[1:]
    end = next(at for at, line in enumerate(lines) if not line.startswith("//"))
    return "\n".join(line[3:] for line in lines[:end])


def is_shown(member):
    """Not what is for the class itself, a friend, or there to be refused."""
    return (member.get("prot") == "public" and member.get("kind") != "friend" and
            "=delete" not in member.findtext("argsstring", "").replace(" ", ""))


def clean(compound):
    """Leaves of a class or namespace what is shown, and says what templates need."""
    for section in compound.findall("sectiondef"):
        for member in section.findall("memberdef"):
            if not is_shown(member):
                section.remove(member)
                continue
            needs = member.findtext("requiresclause") or \
                member.findtext("templateparamlist/requiresclause")
            if needs:
                said = etree.SubElement(member.find("detaileddescription"), "para")
                etree.SubElement(said, "computeroutput").text = f"requires {needs.strip()}"
        if not section.findall("memberdef"):
            compound.remove(section)
    for inner in compound.findall("innerclass"):
        if inner.get("prot") != "public":
            compound.remove(inner)
    for include in compound.findall("includes"):  # the section says it
        compound.remove(include)


def place_of(element):
    place = element.find("location")
    return place.get("file"), int(place.get("line", 0))


class Reference:
    """Doxygen's XML in a folder, by file of the tree."""

    def __init__(self, folder):
        self.files, self.members, self.classes, self.concepts = {}, {}, {}, {}
        for entry in etree.parse(folder / "index.xml").getroot():
            path = folder / f"{entry.get('refid')}.xml"
            kind = entry.get("kind")
            if kind == "dir" or not path.exists():
                continue
            tree = etree.parse(path)
            compound = tree.getroot().find("compounddef")
            if kind == "file":
                self.files[place_of(compound)[0]] = path, tree
                continue
            clean(compound)
            tree.write(path, encoding="utf-8", xml_declaration=True)
            if kind == "namespace" and compound.findtext("compoundname") in PUBLIC:
                for member in compound.iterfind("sectiondef/memberdef"):
                    self.members.setdefault(place_of(member)[0], []).append(member)
            elif kind == "concept":
                self.concepts.setdefault(place_of(compound)[0], []).append(compound)
            elif kind != "namespace":
                self.classes[compound.get("id")] = compound

    def write_file(self, header):
        """Changes the XML of a header; whether it declares anything."""
        path, tree = self.files[header]
        compound = tree.getroot().find("compounddef")
        inner = [one for one in compound.findall("innerclass")
                 if one.get("prot") == "public" and one.get("refid") in self.classes
                 and re.fullmatch(r"lend(::asio)?::\w+", one.text)]
        members = sorted(self.members.get(header, []), key=place_of)
        for child in list(compound):
            if child.tag not in ("compoundname", "location"):
                compound.remove(child)
        compound.extend(inner)
        for kind in "enum", "typedef", "var", "func":
            own = [one for one in members if one.get("kind").startswith(kind)]
            if own:
                section = etree.SubElement(compound, "sectiondef", kind=kind)
                section.extend(own)
        tree.write(path, encoding="utf-8", xml_declaration=True)
        return bool(inner or members or self.concepts.get(header))


def concept(compound):
    """A concept, which this Breathe cannot show."""
    parameters = ", ".join(" ".join(filter(None, (one.findtext("type"), one.findtext("declname"))))
                           for one in compound.iterfind("templateparamlist/param"))
    said = " ".join(" ".join(compound.find("briefdescription").itertext()).split())
    _, _, needs = "".join(compound.find("initializer").itertext()).partition(" = ")
    needs = textwrap.indent(textwrap.dedent(needs).strip(), "      ")
    return (f".. cpp:concept:: template<{parameters}> {compound.findtext('compoundname')}\n\n"
            f"   {said}\n\n   .. code-block:: cpp\n\n{needs}\n")


def jobs_of(rooms):
    """The rooms in their order, with what each does: the table of lib/README.md."""
    rows = re.findall(r"^\| `(\w+)(?:\.cpp)?` \| (.*?)(?: \(\[.*)? \|", rooms, re.M)
    return {room: re.sub(r"`([^`]+)`", r"``\1``", job) for room, job in rows}


def titled(title, line, text):
    return f"{title}\n{line * len(title)}\n\n{text}\n\n"


def write(output, rooms):
    """Writes the pages into OUTPUT/pages/reference. `rooms` is the text of lib/README.md."""
    reference = Reference(output / "xml")
    pages = output / "pages/reference"
    pages.mkdir()
    sections = {}
    for header in sorted((output / "include/lend").rglob("*.hpp")):
        name = header.relative_to(output / "include")
        said = said_of(header)
        if INTERNAL.search(said) or not reference.write_file(str(name)):
            continue
        said = re.sub(r"`([^`]+)`", r"``\1``", said)
        concepts = "\n".join(map(concept, reference.concepts.get(str(name), [])))
        sections.setdefault(name.parts[1].partition(".")[0], []).append(
            titled(str(name), "-", f"{said}\n\n{concepts}\n.. doxygenfile:: {name}"))
    jobs = jobs_of(rooms)
    for room in sections:
        (pages / f"{room}.rst").write_text(
            titled(room, "=", f"{jobs[room]}.\n\n{''.join(sections[room])}"), encoding="utf-8")
    own = [room for room in jobs if room in sections]
    (pages / "index.rst").write_text(titled("Reference", "=", "\n".join([
        "From the comments in the headers, which have the same words.", "",
        *(f":doc:`{room}`\n   {jobs[room]}" for room in own), "",
        ".. toctree::", "   :hidden:", "", *(f"   {room}" for room in own)])), encoding="utf-8")
