// SPDX-License-Identifier: MIT OR Apache-2.0
// Macros with names that other people's headers define. lend's compile behind them.
#pragma once

// X.h, Xlib.h, Xutil.h
#define None 0L
#define Success 0
#define Status int
#define Bool int
#define True 1
#define False 0
#define Always 2
#define Unsorted 0
#define CursorShape 0
#define Above 0
#define Below 1
#define KeyPress 2
#define Complex 0
#define ControlMask 4
#define GrayScale 1
#define Expose 12
#define Convex 2
#define Opposite 4

// Of MPI-like runtimes, kernels, Qt, Windows-like and own headers.
#define barrier() ((void)0)
#define mb() ((void)0)
#define rmb() ((void)0)
#define wmb() ((void)0)
#define cpu_relax() ((void)0)
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#define abs(a) ((a) < 0 ? -(a) : (a))
#define swap(a, b) ((void)0)
#define verify(x) ((void)(x))
#define likely(x) (x)
#define unlikely(x) (x)
#define BIT(x) (1 << (x))
#define ALIGN(x, a) (x)
#define MIN(a, b) 0
#define MAX(a, b) 0
#define BLOCK_SIZE 1024
#define PAGE_SIZE 4096
#define NONE 0
#define ERROR -1
#define OK 0
#define IN
#define OUT
#define interface struct
#define small char
#define far
#define near
#define emit
#define slots
#define signals public
#define foreach for
#define CHECK(x) ((void)(x))
#define LOG(x) ((void)(x))
#define TRY(x) ((void)(x))
#define READ 0
#define WRITE 1
