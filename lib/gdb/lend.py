# SPDX-License-Identifier: MIT OR Apache-2.0
"""Prints values of lend in gdb: Error, Result, Channel, MemoryRegion and PendingWork. In a process that
lives, gdb calls what describes them; of a core file it shows what their own words say."""
import re

import gdb

GENERATION_AT = 32  # a handle's id is the generation above the index of its slot


def said_by(value, call):
    """What a member function without arguments returns; none where nothing can be called."""
    try:
        pointer = f"(({value.type.strip_typedefs().unqualified()}*){int(value.address):#x})"
        return gdb.parse_and_eval(f"{pointer}->{call}()")
    except (gdb.error, TypeError):  # a core file, a function that was not linked, a register
        return None


def text_said_by(value, call):
    said = said_by(value, call)
    if said is None:
        return None
    try:
        data, length = said["_M_dataplus"]["_M_p"], int(said["_M_string_length"])
        return data.string(length=length, encoding="utf-8", errors="replace")
    except gdb.error:
        return None


class ErrorPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        if int(self.value["code_"]) == 0:
            return "no error"
        code = str(self.value["code_"]).rpartition("::")[2]
        message = text_said_by(self.value, "message")
        return code if message is None else f"{code}: {message}" if not message.startswith(code) else message


class ResultPrinter:
    """Outcome's bits: 1 says that there is a value, 2 that there is an error."""

    def __init__(self, value):
        self.value = value

    def to_string(self):
        status = int(self.value["_state"]["_status"]["status_value"])
        if status & 1:
            return "a value"
        return "an error" if status & 2 else "neither value nor error"

    def children(self):
        status = int(self.value["_state"]["_status"]["status_value"])
        if status & 1 and not self.value.type.template_argument(0).code == gdb.TYPE_CODE_VOID:
            yield "value", self.value["_state"]["_value"]
        if status & 2:
            yield "error", self.value["_error"]


class ChannelPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        if int(pointer_of(self.value["state_"])) == 0:
            return "a channel that was moved from"
        return text_said_by(self.value, "describe") or f"a channel, state {int(pointer_of(self.value['state_'])):#x}"


class MemoryRegionPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        state = int(pointer_of(self.value["state_"]))
        if state == 0:
            return "a region that was moved from"
        size = said_by(self.value, "size")
        return f"a region, state {state:#x}" if size is None else f"a region of {int(size)} bytes"


class PendingWorkPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        handle = int(self.value["id_"])
        return f"work in slot {handle & ((1 << GENERATION_AT) - 1)}, generation {handle >> GENERATION_AT}"


def pointer_of(value):
    """A pointer, or that of a unique_ptr, which has nothing else."""
    return value.address.cast(gdb.lookup_type("void").pointer().pointer()).dereference()


PRINTERS = [
    (re.compile(r"lend::Error$"), ErrorPrinter),
    (re.compile(r"boost::outcome_v2\w*::basic_result<.*, lend::Error, lend::StopOnWrongAccess>$"), ResultPrinter),
    (re.compile(r"lend::Channel$"), ChannelPrinter),
    (re.compile(r"lend::MemoryRegion$"), MemoryRegionPrinter),
    (re.compile(r"lend::PendingWork$"), PendingWorkPrinter),
]


def find(value):
    kind = value.type
    if kind.code == gdb.TYPE_CODE_REF:
        value = value.referenced_value()
    name = str(value.type.strip_typedefs().unqualified())
    for pattern, printer in PRINTERS:
        if pattern.match(name):
            return printer(value)
    return None


find.name = "lend"
gdb.pretty_printers[:] = [one for one in gdb.pretty_printers if getattr(one, "name", "") != "lend"] + [find]
