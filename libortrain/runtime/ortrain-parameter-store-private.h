/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "optim/ortrain-update-set-private.h"
#include "plan/ortrain-plan-tables-private.h"
#include "runtime/ortrain-device-context-private.h"
#include "tensor/ortrain-tensor-dict.h"
#include "training-graph/ortrain-training-graph-private.h"

/* The persistent memory of a training session, one block: parameters | gradients, but for those of immediate updates |
 * optimizer state | copies of parameters in 16 bits, and the state of the loss scale | buffers | copies of the buffers,
 * to which a failed step goes back. Every tensor begins on 64 bytes.
 *
 * An optimizer of the user reads and writes memory of the host, and may fail half way. Where the host reads the block,
 * it works there, and a copy of parameters and state, which follows the state, puts things back. Elsewhere it works on
 * a copy of parameters, gradients and state in the host's memory, which is written back when it has succeeded.
 *
 * The sizes are known from the beginning, which is all that a plan needs. The block is taken once, when contents are
 * first asked for; until then the contents are those of the model, and all addresses are NULL. */
typedef struct
{
  OrtrainDeviceContext *device_context; /* of the store */
  const char *name;                     /* owned by the training graph */
  const char *gradient_name;
  OrtrainDType dtype;
  OrtrainDType file_dtype;     /* of the model's contents */
  OrtrainDType gradient_dtype; /* float32 for a parameter of 16 bits too: gradients are sums */
  gint64 *dims;
  guint rank;
  gint64 n_elements;
  gsize bytes; /* of the tensor alone */
  gsize gradient_bytes;
  const char *copy_name; /* of the copy in 16 bits that operators read, in the training graph; NULL: no copy */
  OrtrainDType copy_dtype;
  gpointer copy;
  OrtrainTensor *initial; /* the model's contents, as long as there is no block */
  gpointer address;
  gpointer gradient;              /* NULL: it has no place, the parameter moves in the backward pass */
  gpointer *states;               /* [n_states] */
  const char *const *state_names; /* in the training graph; [n_states] */
  gint64 padding_row;             /* whose gradient is not used; -1 */
  gboolean immediate;
} OrtrainPersistentTensor;

typedef struct
{
  OrtrainDeviceContext *device_context; /* lives longer than the store */
  guint8 *block;                        /* NULL: not taken yet */
  gsize block_bytes;
  gsize bytes[ORTRAIN_CATEGORY_OUTPUT + 1]; /* aligned, by category; their sum is block_bytes */
  OrtrainPersistentTensor *parameters;
  guint n_parameters;
  OrtrainPersistentTensor *buffers;
  guint n_buffers;
  guint8 *buffers_begin;
  guint8 *buffers_copies[2]; /* of a step, and of the step submitted after it */
  gsize buffers_bytes;
  guint8 *gradients_begin;
  gsize gradients_bytes;
  guint8 *states_begin;
  gsize states_bytes;
  guint8 *update_copy; /* parameters, then state; NULL: not needed */
  guint8 *host_copy;   /* of the block up to the end of the state; NULL: not needed */
  gsize host_copy_bytes;
  OrtrainUpdateSet *updates;
  GHashTable *by_name;     /* name of a parameter or buffer → OrtrainPersistentTensor */
  GHashTable *by_gradient; /* name of a gradient → OrtrainPersistentTensor */
  GHashTable *by_state;    /* name of a state in the training graph → where its address stands */
  OrtrainLossScaling scaling;
  const char *loss_scale_name, *good_steps_name, *overflows_name; /* NULL: the loss is not scaled */
  const char *tolerated_name;                                     /* NULL without hysteresis */
  gpointer loss_scale, good_steps, overflows, tolerated;          /* float32, else int64 */
  const char *loss_weight_name;                                   /* NULL if steps are not weighted */
  gpointer loss_weight;                                           /* in the type of the loss */
  OrtrainDType loss_dtype;
  double written_weight; /* its present contents */
  const char *scalars_name;
  gpointer scalars; /* of updates; apart from the block, like the data of a step */
} OrtrainParameterStore;

/* Lays out the block. */
OrtrainParameterStore *ortrain_parameter_store_new (OrtrainTrainingGraph *graph, const OrtrainUpdateRule *rule,
                                                    OrtrainOptimizer *optimizer, OrtrainDeviceContext *device_context,
                                                    GError **error);
void ortrain_parameter_store_free (OrtrainParameterStore *self);

/* Takes the block and copies the model's contents into it, if that has not been done. When it fails, nothing has
 * happened, and it may be tried again. All functions below, but `find` and `zero_gradients`, need the block. */
gboolean ortrain_parameter_store_take_memory (OrtrainParameterStore *self, GError **error);

/* The scalars of the next update. */
gboolean ortrain_parameter_store_write_scalars (OrtrainParameterStore *self, const double *scalars, GError **error);

/* The weight of the next training step among those that are accumulated. */
gboolean ortrain_parameter_store_write_loss_weight (OrtrainParameterStore *self, double weight, GError **error);

/* Call it after a change of parameters that no update made. */
gboolean ortrain_parameter_store_refresh_copies (OrtrainParameterStore *self, GError **error);
/* The factor of the loss, the number of updates since it has changed, the number of skipped updates so far, and how
 * many of these, since it has grown, have not changed it. */
typedef struct
{
  float loss_scale;
  gint64 good_steps, overflows, tolerated;
} OrtrainScalerState;
gboolean ortrain_parameter_store_read_scaler (OrtrainParameterStore *self, OrtrainScalerState *state, GError **error);
/* The same; it is there after the next wait for the execution. */
gboolean ortrain_parameter_store_submit_read_scaler (OrtrainParameterStore *self, OrtrainScalerState *state,
                                                     GError **error);
gboolean ortrain_parameter_store_write_scaler (OrtrainParameterStore *self, const OrtrainScalerState *state,
                                               GError **error);

gpointer ortrain_parameter_store_resolve (const char *name, OrtrainRegion region, gpointer user_data);
/* copy: 0 or, on a device that runs by itself, 1. */
gboolean ortrain_parameter_store_save_buffers (OrtrainParameterStore *self, guint copy, GError **error);
void ortrain_parameter_store_restore_buffers (OrtrainParameterStore *self, guint copy);
/* Around an update by an optimizer of the user. keep FALSE: nothing has happened. */
gboolean ortrain_parameter_store_begin_update (OrtrainParameterStore *self, GError **error);
gboolean ortrain_parameter_store_end_update (OrtrainParameterStore *self, gboolean keep, GError **error);
/* The host address, for such an optimizer, of an address in the block. */
gpointer ortrain_parameter_store_get_host_address (const OrtrainParameterStore *self, gpointer address);
void ortrain_parameter_store_zero_gradients (OrtrainParameterStore *self);
/* Called after each backward pass. */
void ortrain_parameter_store_zero_padding (OrtrainParameterStore *self);
OrtrainPersistentTensor *ortrain_parameter_store_find (OrtrainParameterStore *self, const char *name);
/* The gradient of a parameter as one of the tensors of the store. */
OrtrainPersistentTensor ortrain_stored_get_gradient (const OrtrainPersistentTensor *stored);
/* A tensor over memory of the store, valid as long as the store is, or, where the host does not read it, a copy; for
 * use inside the library. */
OrtrainTensor *ortrain_stored_peek (const OrtrainPersistentTensor *stored, gpointer address, GError **error);
OrtrainTensor *ortrain_stored_copy (const OrtrainPersistentTensor *stored, gconstpointer address, GError **error);
/* Checks all of `tensors` against the store, then copies them in. Names that are no parameter or buffer:
 * SESSION_ERROR_FEED. */
gboolean ortrain_parameter_store_set (OrtrainParameterStore *self, OrtrainTensorDict *tensors, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (OrtrainParameterStore, ortrain_parameter_store_free)
