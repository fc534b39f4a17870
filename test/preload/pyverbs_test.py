#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Goal: the soft device keeps the promises of verbs as Python's bindings see them: every operation,
and the right status for what must fail.
Method: pyverbs as Debian ships it, preloaded; two queue pairs of one process, connected.
Usage: pyverbs_test.py LIBRARY [TEST...]"""
import errno
import os
import subprocess
import sys
import unittest

if "LD_PRELOAD" not in os.environ:
    # Debian's modules belong to Debian's interpreter, which need not be the first on PATH.
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import pyverbs.qp"], capture_output=True).returncode == 0:
            os.environ["LD_PRELOAD"] = os.path.abspath(sys.argv[1])
            os.execv(python, [python, os.path.abspath(__file__), *sys.argv[2:]])
    print("no pyverbs here: install package python3-pyverbs")
    sys.exit(77)

# pylint: disable=wrong-import-position
import pyverbs.enums as e
from pyverbs.addr import AH, AHAttr
from pyverbs.cq import CQ, CQEX, CqInitAttrEx, PollCqAttr
from pyverbs.device import Context, QueryDeviceExInput, get_device_list
from pyverbs.mr import MR, MW
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsError, PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPEx, QPInitAttr, QPInitAttrEx
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import RecvWR, SGE, SendWR

ALL_RIGHTS = (e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
              | e.IBV_ACCESS_REMOTE_ATOMIC)
POLLS = 10_000_000  # far more than any completion takes
SIGNALED = e.IBV_SEND_SIGNALED
KEY = 0x11111111


def poll(queue, count=1):
    found = []
    for _ in range(POLLS):
        found += queue.poll(count - len(found))[1]
        if len(found) == count:
            return found
    raise AssertionError(f"{len(found)} of {count} completions")


class Side:
    """One queue pair with memory and a completion queue of its own."""

    def __init__(self, context, pd, *, srq=None, kind=e.IBV_QPT_RC, builders=0, queue=None,
                 access=ALL_RIGHTS):
        self.access = access
        self.memory = MR(pd, 8192, ALL_RIGHTS)
        self.cq = queue or CQ(context, 64)
        cap = QPCap(max_send_wr=16, max_recv_wr=16, max_send_sge=4, max_recv_sge=4,
                    max_inline_data=64)
        if builders:
            made = QPInitAttrEx(qp_type=kind, scq=self.cq, rcq=self.cq, cap=cap, pd=pd,
                                send_ops_flags=builders, comp_mask=e.IBV_QP_INIT_ATTR_PD
                                | e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
            self.qp = QPEx(context, made)
        else:
            self.qp = QP(pd, QPInitAttr(qp_type=kind, scq=self.cq, rcq=self.cq, cap=cap, srq=srq))

    def connect(self, other):
        attributes = QPAttr(port_num=1)
        attributes.qp_access_flags = self.access
        attributes.dest_qp_num = other.qp.qp_num
        attributes.path_mtu = e.IBV_MTU_1024
        attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 4
        attributes.min_rnr_timer = 1
        attributes.timeout = 10
        attributes.retry_cnt = 3
        attributes.rnr_retry = 1
        attributes.rq_psn = attributes.sq_psn = 7
        attributes.ah_attr = AHAttr(dlid=1, port_num=1)
        self.qp.to_rts(attributes)

    def piece(self, length=100, offset=0, key=None):
        return SGE(self.memory.buf + offset, length, self.memory.lkey if key is None else key)

    def receive(self, wr_id=1, **piece):
        self.qp.post_recv(RecvWR(wr_id, 1, [self.piece(**piece)]))

    def send(self, opcode=e.IBV_WR_SEND, *, wr_id=2, flags=SIGNALED, imm=0, remote=None,
             remote_key=None, operands=None, **piece):
        request = SendWR(wr_id, opcode, 1, imm, [self.piece(**piece)], flags)
        if operands is not None:
            request.set_wr_atomic(remote.memory.rkey, remote.memory.buf, *operands)
        elif remote is not None:
            key = remote.memory.rkey if remote_key is None else remote_key
            request.set_wr_rdma(key, remote.memory.buf)
        self.qp.post_send(request)

    def state(self):
        return self.qp.query(e.IBV_QP_STATE)[0].qp_state


class WithDevice(unittest.TestCase):
    def setUp(self):
        self.context = Context(name="soft0")
        self.pd = PD(self.context)

    def two_sides(self, **options):
        a, b = Side(self.context, self.pd, **options), Side(self.context, self.pd, **options)
        a.connect(b)
        b.connect(a)
        return a, b

    def expect(self, side, *outcomes):
        """`outcomes` are wr_id and status of the next completions, in order."""
        found = [(c.wr_id, c.status) for c in poll(side.cq, len(outcomes))]
        self.assertEqual(found, list(outcomes))

    def refused(self, number, call, *arguments, **options):
        """`number` is the errno, or what the call returns."""
        with self.assertRaises(PyverbsRDMAError) as caught:
            call(*arguments, **options)
        self.assertEqual(caught.exception.error_code, number)


class Answers(WithDevice):
    def test_the_device_is_listed_and_describes_itself(self):
        [device] = [d for d in get_device_list() if d.name == b"soft0"]
        port = self.context.query_port(1)
        self.assertEqual(port.state, e.IBV_PORT_ACTIVE)
        gid = self.context.query_gid(1, 0).gid
        self.assertEqual(self.context.query_gid_ex(1, 0).gid_str(), gid)
        self.assertEqual([entry.gid_str() for entry in self.context.query_gid_table(16)], [gid])
        self.assertEqual(self.context.query_gid_type(1, 0), 0)
        self.assertEqual(self.context.query_pkey(1, 0), 0xffff)
        plain, extended = self.context.query_device(), self.context.query_device_ex()
        self.assertEqual(plain.max_qp, extended.orig_attr.max_qp)
        as_it_travels = plain.node_guid.to_bytes(8, sys.byteorder)
        self.assertEqual(int.from_bytes(as_it_travels, "big"), device.guid)

    def test_what_is_not_there_is_refused(self):
        self.refused(errno.EINVAL, self.context.query_port, 2)
        self.refused(-1, self.context.query_gid, 1, 1)
        self.refused(-1, self.context.query_pkey, 1, 1)
        self.refused(errno.EOPNOTSUPP, MW, self.pd, e.IBV_MW_TYPE_1)

    def test_a_registration_with_rights_it_must_not_have_is_refused(self):
        self.refused(errno.EINVAL, MR, self.pd, 100, e.IBV_ACCESS_REMOTE_WRITE)

    def test_a_queue_pair_answers_what_it_was_told(self):
        a, _ = self.two_sides()
        attributes, made = a.qp.query(e.IBV_QP_AV | e.IBV_QP_PATH_MTU | e.IBV_QP_SQ_PSN)
        self.assertEqual((attributes.path_mtu, attributes.sq_psn), (e.IBV_MTU_1024, 7))
        self.assertEqual((attributes.ah_attr.dlid, made.cap.max_send_wr), (1, 16))

    def test_a_transition_with_a_part_missing_is_refused(self):
        side = Side(self.context, self.pd)
        attributes = QPAttr(qp_state=e.IBV_QPS_INIT, port_num=1)
        self.refused(errno.EINVAL, side.qp.modify, attributes, e.IBV_QP_STATE | e.IBV_QP_PORT)
        attributes.qp_state = e.IBV_QPS_RTS
        self.refused(errno.EINVAL, side.qp.modify, attributes, e.IBV_QP_STATE)
        self.assertEqual(side.state(), e.IBV_QPS_RESET)


class Operations(WithDevice):
    def test_send_and_receive_bring_bytes_and_immediate(self):
        a, b = self.two_sides()
        a.memory.write("x" * 100, 100)
        b.receive()
        a.send(e.IBV_WR_SEND_WITH_IMM, imm=5)
        self.expect(a, (2, e.IBV_WC_SUCCESS))
        [received] = poll(b.cq)
        self.assertEqual((received.opcode, received.byte_len, received.imm_data),
                         (e.IBV_WC_RECV, 100, 5))
        self.assertEqual(b.memory.read(100, 0), b"x" * 100)

    def test_write_and_read_need_no_receive(self):
        a, b = self.two_sides()
        a.memory.write("w" * 100, 100)
        a.send(e.IBV_WR_RDMA_WRITE, remote=b)
        a.send(e.IBV_WR_RDMA_READ, remote=b, wr_id=3, offset=4096)
        self.expect(a, (2, e.IBV_WC_SUCCESS), (3, e.IBV_WC_SUCCESS))
        self.assertEqual(b.memory.read(100, 0), b"w" * 100)
        self.assertEqual(a.memory.read(100, 4096), b"w" * 100)

    def test_atomics_give_what_was_there(self):
        a, b = self.two_sides()
        number = lambda side: int.from_bytes(side.memory.read(8, 0), sys.byteorder)
        a.send(e.IBV_WR_ATOMIC_FETCH_AND_ADD, remote=b, operands=(40, 0), length=8)
        a.send(e.IBV_WR_ATOMIC_CMP_AND_SWP, remote=b, operands=(40, 2), length=8, wr_id=3)
        self.expect(a, (2, e.IBV_WC_SUCCESS), (3, e.IBV_WC_SUCCESS))
        self.assertEqual((number(a), number(b)), (40, 2))

    def test_a_shared_receive_queue_serves_two(self):
        srq = SRQ(self.pd, SrqInitAttr(SrqAttr(max_wr=8)))
        a, b = self.two_sides(srq=srq)
        for i in range(2):
            srq.post_recv(RecvWR(10 + i, 1, [b.piece(offset=100 * i)]))
        a.send()
        b.send()
        self.assertEqual(sorted(c.wr_id for c in poll(a.cq, 2) + poll(b.cq, 2)), [2, 2, 10, 11])

    def test_work_is_built_call_by_call_and_read_field_by_field(self):
        queue = CQEX(self.context, CqInitAttrEx(cqe=64, wc_flags=e.IBV_WC_STANDARD_FLAGS))
        flags = e.IBV_QP_EX_WITH_SEND_WITH_IMM | e.IBV_QP_EX_WITH_RDMA_WRITE
        a, b = self.two_sides(builders=flags, queue=queue)
        b.receive(wr_id=1)
        a.qp.wr_start()
        a.qp.wr_id, a.qp.wr_flags = 2, SIGNALED
        a.qp.wr_rdma_write(b.memory.rkey, b.memory.buf + 4096)
        a.qp.wr_set_sge(a.piece(64))
        a.qp.wr_id = 3
        a.qp.wr_send_imm(9)
        a.memory.write("abc", 3)
        a.qp.wr_set_inline_data(a.memory.buf, 3)
        a.qp.wr_complete()
        seen = {}
        for _ in range(POLLS):
            if len(seen) == 3:
                break
            if queue.start_poll(PollCqAttr()) == 0:
                seen[queue.wr_id] = queue.status, queue.read_opcode()
                queue.end_poll()
        ok = e.IBV_WC_SUCCESS
        self.assertEqual(seen, {1: (ok, e.IBV_WC_RECV), 2: (ok, e.IBV_WC_RDMA_WRITE),
                                3: (ok, e.IBV_WC_SEND)})
        self.assertEqual(b.memory.read(3, 0), b"abc")

    def test_a_datagram_arrives_behind_its_header_and_names_its_sender(self):
        a, b = (Side(self.context, self.pd, kind=e.IBV_QPT_UD) for _ in range(2))
        for side in (a, b):
            attributes = QPAttr(port_num=1)
            attributes.qkey = KEY
            side.qp.to_rts(attributes)
        a.memory.write("d" * 100, 100)
        b.receive(length=140)
        request = SendWR(2, e.IBV_WR_SEND, 1, 0, [a.piece()], SIGNALED)
        request.set_wr_ud(AH(self.pd, attr=AHAttr(dlid=1, port_num=1)), b.qp.qp_num, KEY)
        a.qp.post_send(request)
        self.expect(a, (2, e.IBV_WC_SUCCESS))
        [received] = poll(b.cq)
        self.assertEqual((received.byte_len, received.src_qp), (140, a.qp.qp_num))
        self.assertEqual(b.memory.read(100, 40), b"d" * 100)


class Faults(WithDevice):
    def expect_broken(self, side, status):
        self.expect(side, (2, status))
        self.assertEqual(side.state(), e.IBV_QPS_ERR)

    def test_a_wrong_key_of_the_peers_memory(self):
        for opcode in (e.IBV_WR_RDMA_WRITE, e.IBV_WR_RDMA_READ):
            a, b = self.two_sides()
            a.send(opcode, remote=b, remote_key=b.memory.rkey ^ 1)
            self.expect_broken(a, e.IBV_WC_REM_ACCESS_ERR)

    def test_a_key_of_memory_that_was_deregistered(self):
        a, b = self.two_sides()
        key = b.memory.rkey
        b.memory.close()
        b.memory = MR(self.pd, 8192, ALL_RIGHTS)
        a.send(e.IBV_WR_RDMA_WRITE, remote=b, remote_key=key)
        self.expect_broken(a, e.IBV_WC_REM_ACCESS_ERR)

    def test_a_region_that_changed_its_rights(self):
        a, b = self.two_sides()
        key = b.memory.rkey
        b.memory.rereg(e.IBV_REREG_MR_CHANGE_ACCESS, None, 0, 0, e.IBV_ACCESS_REMOTE_READ)
        a.send(e.IBV_WR_RDMA_READ, remote=b, wr_id=1)
        self.expect(a, (1, e.IBV_WC_SUCCESS))
        a.send(e.IBV_WR_RDMA_WRITE, remote=b)
        self.expect_broken(a, e.IBV_WC_REM_ACCESS_ERR)
        self.assertEqual(b.memory.rkey, key)
        self.refused(errno.EINVAL, b.memory.rereg, 0, None, 0, 0, 0)

    def test_a_queue_pair_that_allows_no_remote_access(self):
        a, b = self.two_sides(access=0)
        a.send(e.IBV_WR_RDMA_WRITE, remote=b)
        self.expect_broken(a, e.IBV_WC_REM_INV_REQ_ERR)

    def test_a_wrong_key_of_our_own_memory(self):
        a, _ = self.two_sides()
        a.send(key=a.memory.lkey ^ 1)
        self.expect_broken(a, e.IBV_WC_LOC_PROT_ERR)

    def test_a_message_longer_than_the_receive(self):
        a, b = self.two_sides()
        b.receive(length=99)
        a.send()
        self.expect_broken(a, e.IBV_WC_REM_INV_REQ_ERR)
        self.expect(b, (1, e.IBV_WC_LOC_LEN_ERR))

    def test_nobody_posts_a_receive(self):
        a, _ = self.two_sides()
        a.send()
        self.expect_broken(a, e.IBV_WC_RNR_RETRY_EXC_ERR)

    def test_a_peer_that_was_reset(self):
        a, b = self.two_sides()
        b.qp.modify(QPAttr(qp_state=e.IBV_QPS_RESET), e.IBV_QP_STATE)
        a.send(e.IBV_WR_RDMA_WRITE, remote=b)
        self.expect_broken(a, e.IBV_WC_RETRY_EXC_ERR)

    def test_the_error_state_gives_everything_back(self):
        a, _ = self.two_sides()
        a.receive(wr_id=1)
        a.qp.modify(QPAttr(qp_state=e.IBV_QPS_ERR), e.IBV_QP_STATE)
        a.send()
        flushed = sorted((c.wr_id, c.status) for c in poll(a.cq, 2))
        self.assertEqual(flushed, [(1, e.IBV_WC_WR_FLUSH_ERR), (2, e.IBV_WC_WR_FLUSH_ERR)])

    def test_a_send_before_the_queue_pair_is_ready(self):
        side = Side(self.context, self.pd)
        self.refused(errno.EINVAL, side.send)
        self.refused(errno.EINVAL, side.receive)

    def test_more_than_the_queue_holds(self):
        a, _ = self.two_sides()
        for i in range(16):
            a.receive(wr_id=i)
        self.refused(errno.ENOMEM, a.receive)


class Planned(unittest.TestCase):
    """Faults from the environment strike the calls that real programs make, inline ones too."""

    def steps(self):
        """Each makes one control call, or says that it makes more."""
        context = Context(name="soft0")
        pd = queue = pool = None
        cap = QPCap(max_send_wr=4, max_recv_wr=4)

        def make_pd():
            nonlocal pd
            pd = PD(context)

        def make_queue():
            nonlocal queue
            queue = CQ(context, 16)

        def make_pool():
            nonlocal pool
            pool = SRQ(pd, SrqInitAttr(SrqAttr(max_wr=4)))

        def make_pair(builders):
            made = QPInitAttrEx(qp_type=e.IBV_QPT_RC, scq=queue, rcq=queue, cap=cap, pd=pd,
                                send_ops_flags=builders, comp_mask=e.IBV_QP_INIT_ATTR_PD
                                | (e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS if builders else 0))
            return QPEx(context, made) if builders else QP(context, made)

        return [
            ("query_port", lambda: context.query_port(1)),
            ("query_device", context.query_device),
            ("query_device_ex", context.query_device_ex),
            ("query_gid", lambda: context.query_gid(1, 0)),
            ("query_gid_ex", lambda: context.query_gid_ex(1, 0)),
            ("query_gid_type", lambda: context.query_gid_type(1, 0)),
            ("query_pkey", lambda: context.query_pkey(1, 0)),
            ("alloc_pd", make_pd),
            ("reg_mr", lambda: MR(pd, 4096, e.IBV_ACCESS_LOCAL_WRITE)),
            ("rereg_mr", lambda: MR(pd, 4096, ALL_RIGHTS).rereg(
                e.IBV_REREG_MR_CHANGE_ACCESS, None, 0, 0, e.IBV_ACCESS_LOCAL_WRITE)),
            ("create_cq", make_queue),
            ("resize_cq", lambda: queue.resize(32)),
            ("create_cq_ex", lambda: CQEX(context, CqInitAttrEx(cqe=16))),
            ("create_srq", make_pool),
            ("query_srq", lambda: pool.query()),
            ("create_qp", lambda: make_pair(0)),
            ("create_qp_ex", lambda: make_pair(e.IBV_QP_EX_WITH_SEND)),
            ("create_ah", lambda: AH(pd, attr=AHAttr(dlid=1, port_num=1))),
        ]

    def test_each_call_fails_in_its_turn(self):
        struck = []
        try:
            for number in range(1, 100):
                os.environ["LEND_SOFT_FAULTS"] = f"control@{number}:{errno.ENOSPC}"
                name = None
                for name, make in self.steps():
                    try:
                        make()
                    except PyverbsError:
                        break
                else:
                    break  # there are no more calls
                struck.append(name)
        finally:
            del os.environ["LEND_SOFT_FAULTS"]
        names = [name for name, _ in self.steps()]
        self.assertEqual(list(dict.fromkeys(struck)), names)


if __name__ == "__main__":
    unittest.main(verbosity=2)
