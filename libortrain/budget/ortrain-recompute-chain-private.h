/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* Training a chain of blocks in little memory, as a problem of its own. Each block runs forward, and later backward,
 * the last one first. The bytes that a block keeps of a forward run for its backward run are one of its options, which
 * differ in bytes and in work. A block whose backward run comes much later may keep nothing: then it runs forward
 * again, from the values that are open at a boundary before it, and any stretch of blocks may run again as often as it
 * takes. */

typedef struct
{
  guint64 kept;    /* bytes that wait for the backward run, with those open at the boundary after the block */
  guint64 forward; /* most bytes during the forward run that keeps them, without those open at the boundary before */
  guint64 peak;    /* most bytes during the backward run, with those that are kept, and the gradients that come in */
  double work;     /* of nodes that run again within the backward run */
} OrtrainChainOption;

typedef struct
{
  guint64 forward;   /* most bytes during a forward run that keeps nothing, likewise */
  guint64 gradients; /* bytes that wait when its backward run begins: gradients of the values open after it */
  double work;       /* of another forward run */
  guint first_option, n_options;
} OrtrainChainBlock;

#define ORTRAIN_CHAIN_MAX_BLOCKS 160 /* fewer than that: the effort grows with their cube */

typedef struct
{
  guint n_blocks;
  OrtrainChainBlock *blocks;   /* [n_blocks] */
  OrtrainChainOption *options; /* of all blocks */
  guint64 *open; /* [(n_blocks + 1) * (n_blocks + 1)]: [i * (n_blocks + 1) + m], i ≤ m: bytes that are open at boundary
                  * m, the one before block m, and were not at boundary i */
} OrtrainChain;

typedef struct
{
  double work;
  guint64 peak;  /* at most */
  guint *option; /* [n_blocks]: of the block's options */
  guint *run;    /* [n_blocks]: in which of its forward runs it keeps them; 0: the first */
  guint *stored; /* [n_blocks + 1]: the run from which the values open at a boundary are kept; G_MAXUINT: only as the
                  * options of the blocks say */
} OrtrainChainSchedule;

/* The ways to run the chain with the least work, for each peak of a grid, the largest first; without those that need
 * the same work as a smaller one. Of OrtrainChainSchedule; empty: there are no blocks. */
GPtrArray *ortrain_chain_solve (const OrtrainChain *self);
