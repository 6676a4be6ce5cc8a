/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-macros.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_MEMORY_REPORT (ortrain_memory_report_get_type ())

typedef struct _OrtrainMemoryReport OrtrainMemoryReport;

/**
 * OrtrainMemoryReport:
 * @rank: number of the process among those that train together, 0 when it is alone
 * @step: number of the step, from 1
 * @phase: `pre_forward`, `post_forward`, `pre_backward`, `post_backward`, `pre_update` or `post_update`
 * @allocated: bytes of live values, now
 * @max_allocated: the maximum of @allocated since the session was created, also between the phases
 * @cached: bytes held from the device, now
 * @max_cached: the maximum of @cached
 * @inactive: bytes held and not live, now
 * @max_inactive: the maximum of @inactive at a phase boundary
 * @param: bytes of the model's parameters
 * @grad: bytes of their gradients
 * @buffer: bytes of tensors that are not trained: running statistics
 * @step_peak: the maximum of @allocated since the step began
 * @state: bytes of the optimizer's state
 * @activation: bytes of values of the forward pass that the backward pass will read, now
 * @temporary: bytes of values that their own phase alone reads, now
 * @workspace: bytes of kernels' workspaces, now
 * @constant: bytes of weights that are not trained and of folded constants
 * @input: bytes of the fed inputs; the caller's memory, not part of @allocated
 * @output: bytes of outputs and losses, now
 *
 * A snapshot of a session's memory. All sizes are in bytes. The signals of [class@TrainingSession] have one.
 *
 * ```python
 * def show(session, report):
 *     print(report.phase, report.allocated, report.to_string())
 *
 * session.connect("post-backward", show)
 * session.train_step({"x": x, "labels": labels})
 * ```
 *
 * A report is immutable, and any thread may use it; a copy is a reference to the same one.
 */
struct _OrtrainMemoryReport
{
  guint rank;
  guint64 step;
  const char *phase;
  guint64 allocated;
  guint64 max_allocated;
  guint64 cached;
  guint64 max_cached;
  guint64 inactive;
  guint64 max_inactive;
  guint64 param;
  guint64 grad;
  guint64 buffer;
  guint64 step_peak;
  guint64 state;
  guint64 activation;
  guint64 temporary;
  guint64 workspace;
  guint64 constant;
  guint64 input;
  guint64 output;
};

ORTRAIN_AVAILABLE_IN_ALL
GType ortrain_memory_report_get_type (void);

ORTRAIN_AVAILABLE_IN_ALL
OrtrainMemoryReport *ortrain_memory_report_copy (OrtrainMemoryReport *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_memory_report_free (OrtrainMemoryReport *self);
ORTRAIN_AVAILABLE_IN_ALL
char *ortrain_memory_report_to_string (OrtrainMemoryReport *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (OrtrainMemoryReport, ortrain_memory_report_free)

G_END_DECLS
