# SPDX-License-Identifier: MIT OR Apache-2.0
"""The reference: a page for each header, which is named after its class, from Doxygen's XML. Breathe
takes a header's page from the XML of that file, to which all that the header declares is moved."""
import re
import textwrap
import xml.etree.ElementTree as etree

# What a header says of itself that programs have no use for.
INTERNAL = re.compile(r"Not for\s+programs|For the headers\s+beside\s+it|For\s+`\w+\.hpp`|^The body of")
PUBLIC = ("lend", "lend::asio")
# The folders of the headers, in the order in which a reader meets them.
TOPICS = {
    "channel": {"title": "Channels: connect, post, wait",
                "says": "Channels to one peer or many; scopes, handles, sets and pools.",
                "first": "channel builder polling_scope pending_work prepared_channel batch "
                         "channel_options wait_set set_scope receive_pool multi_channel multi_scope"},
    "open_device": {"title": "Choose a device", "says": "Which device a program takes."},
    "verbs": {"title": "Verbs objects: devices, memory, queue pairs",
              "says": "A class for each object of verbs, and memory that is lent.",
              "first": "context protection_domain memory_region typed_region work_request "
                       "remote_region remote_span exposure queue_pair completion_queue"},
    "base": {"title": "Results, errors, deadlines",
             "says": "What every call returns, and how long it may take.",
             "first": "result error deadline"},
    "network": {"title": "Connect two processes", "says": "listen(), connect() and what they exchange.",
                "first": "connect"},
    "cm": {"title": "Connect by rdma_cm", "says": "The library lend-cm; the only way on iWARP."},
    "transport": {"title": "Transports: messages with flow control",
                  "says": "Messages without posts and registrations of the program's.",
                  "first": "connect transport waiting received draft"},
    "stream": {"title": "Byte streams", "says": "Bytes in order, over any transport."},
    "asio": {"title": "Boost.Asio", "says": "Byte streams as Asio's programs know streams; messages, channels."},
    "group": {"title": "Groups: ranks, barriers, collectives", "says": "The library lend-group.",
              "first": "group team group_scope reductions group_options"},
    "launch": {"title": "Ranks that find each other", "says": "Seats, desks and rosters.",
               "first": "seat desk"},
    "observe": {"title": "Metrics", "says": "What a channel counts of its work."},
    "doctor": {"title": "Examine a host", "says": "The library lend-doctor: what keeps a process from RDMA."},
    "soft": {"title": "Faults of the soft device", "says": "What goes wrong, and when, in a test."},
}


def said_of(header):
    """What a header says of itself in its first lines."""
    lines = header.read_text(encoding="utf-8").splitlines()[1:]
    end = next(at for at, line in enumerate(lines) if not line.startswith("//"))
    return "\n".join(line[3:] for line in lines[:end])


def is_shown(member):
    """Not what is for the class itself, a friend, or there to be refused."""
    return (member.get("prot") == "public" and member.get("kind") != "friend" and
            "=delete" not in member.findtext("argsstring", "").replace(" ", ""))


def is_said(member):
    """Not a specialization, nor a template's name for a type that no comment explains."""
    is_alias = member.get("kind") == "typedef" and member.find("templateparamlist") is not None
    words = "".join("".join(member.find(f"{part}description").itertext()) for part in ("brief", "detailed"))
    return "<" not in member.findtext("name") and (words.strip() != "" or not is_alias)


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
                for member in filter(is_said, compound.iterfind("sectiondef/memberdef")):
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


    def title_of(self, header):
        """The type that a header is named after, or has alone; else what it includes."""
        types = [one.text.rpartition("::")[2] for one in
                 self.files[str(header)][1].getroot().iterfind("compounddef/innerclass")]
        own = [name for name in types if snake(name) == header.stem]
        return (own or (types if len(types) == 1 else []) or [str(header)])[0]

    def names(self):
        """What pages may link to, by what they call it, with the reference's name: a type, its
        member, and a function that is the only one of its name."""
        found, called = {}, {}
        for compound in self.classes.values():
            full = compound.findtext("compoundname")
            if not re.fullmatch(r"lend::\w+", full):
                continue
            found[full[6:]] = full
            for name in {one.findtext("name") for one in compound.iterfind("sectiondef/memberdef")}:
                if re.fullmatch(r"\w+", name):
                    found[f"{full[6:]}::{name}"] = f"{full}::{name}"
                    called.setdefault(f"{name}()", set()).add(f"{full}::{name}")
        for member in (one for members in self.members.values() for one in members):
            name = member.findtext("name")
            if member.get("kind") == "function":
                called.setdefault(f"{name}()", set()).add(name)
            else:
                found.setdefault(name, name)
        return found | {name: "".join(those) for name, those in called.items() if len(those) == 1}


def concept(compound):
    """A concept, which this Breathe cannot show."""
    parameters = ", ".join(" ".join(filter(None, (one.findtext("type"), one.findtext("declname"))))
                           for one in compound.iterfind("templateparamlist/param"))
    said = " ".join(" ".join(compound.find("briefdescription").itertext()).split())
    _, _, needs = "".join(compound.find("initializer").itertext()).partition(" = ")
    needs = textwrap.indent(textwrap.dedent(needs).strip(), "      ")
    return (f".. cpp:concept:: template<{parameters}> {compound.findtext('compoundname')}\n\n"
            f"   {said}\n\n   .. code-block:: cpp\n\n{needs}\n")


def snake(name):
    """What the house calls the file of a type."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def titled(title, line, text):
    return f"{title}\n{line * len(title)}\n\n{text}\n\n"


def is_read_first(topic):
    """Sorts the headers of a topic: first what most programs use, then by name."""
    first = topic.get("first", "").split()
    return lambda name: (first.index(name.stem) if name.stem in first else len(first), name.stem)


def write(output):
    """Writes the pages into OUTPUT/pages/reference: one for each header, below its topic. Returns
    the names that pages may link to, with what the reference calls them."""
    reference = Reference(output / "xml")
    pages = output / "pages/reference"
    pages.mkdir()
    topics = {room: {} for room in TOPICS}
    for header in sorted((output / "include/lend").rglob("*.hpp")):
        name = header.relative_to(output / "include")
        said = said_of(header)
        if INTERNAL.search(said) or not reference.write_file(str(name)):
            continue
        room = name.parts[1].partition(".")[0]
        if room not in TOPICS:
            raise SystemExit(f"reference.py: TOPICS has no title for {name}")
        concepts = "\n".join(map(concept, reference.concepts.get(str(name), [])))
        said = re.sub(r"`([^`]+)`", r"``\1``", said)
        topics[room][name] = titled(
            reference.title_of(name), "=",
            f"``#include <{name}>``\n\n{said}\n\n.. doxygenfile:: {name}\n\n{concepts}")
    for room, sections in topics.items():
        topic, own = TOPICS[room], []
        for name in sorted(sections, key=is_read_first(topic)):
            own.append(f"{room}-{name.stem}")
            (pages / f"{own[-1]}.rst").write_text(sections[name], encoding="utf-8")
        (pages / f"{room}.rst").write_text(titled(topic["title"], "=", "\n".join([
            topic["says"], "", ".. toctree::", "   :maxdepth: 1", "", *(f"   {one}" for one in own)])),
            encoding="utf-8")
    (pages / "index.rst").write_text(titled("Reference", "=", "\n".join([
        "From the comments in the headers, which have the same words.", "",
        *(f":doc:`{room}`\n   {topic['says']}" for room, topic in TOPICS.items()), "",
        ".. toctree::", "   :hidden:", "", *(f"   {room}" for room in TOPICS)])), encoding="utf-8")
    return reference.names()
