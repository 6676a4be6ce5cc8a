/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "ops/ortrain-op-private.h"

/* Bodies: the computation of a node of an operator of our own, or of Einsum, written in simpler operators of ONNX. A
 * provider without a kernel for the operator runs its body; a test compares the two. A row's `expand` writes the nodes
 * of the body in front of the node and says which value is which output; all shapes are numbers.
 *
 * 16-bit operands come in float32, and results go back to their types: kernels of 16-bit types compute in float32 too.
 * After an error all functions here return NULL, and take NULL, so that a body need look at nothing in between. */
struct _OrtrainBody
{
  OrtrainGraph *graph;
  OrtrainNode *node;
  OrtrainValue **results; /* by output */
  GError *error;
};

/* *expanded: whether the node was replaced by its body; some rows have none, or not for all attributes. */
gboolean ortrain_body_expand (OrtrainNode *node, gboolean *expanded, GError **error);
/* The same by `restore`, for nodes whose shapes need not be known. */
gboolean ortrain_body_restore (OrtrainNode *node, gboolean *restored, GError **error);

OrtrainValue *ortrain_body_input (OrtrainBody *self, guint i); /* may be NULL */
gboolean ortrain_body_wants (OrtrainBody *self, guint k);
void ortrain_body_set (OrtrainBody *self, guint k, OrtrainValue *value);   /* the result may have another shape */
const gint64 *ortrain_body_dims (const OrtrainValue *value, gint64 *dims); /* of an operand: numbers */
gint ortrain_body_axis (OrtrainBody *self, const char *name, gint64 fallback, gint rank);
gint64 ortrain_body_int (OrtrainBody *self, const char *name, gint64 fallback);
double ortrain_body_float (OrtrainBody *self, const char *name, double fallback);

/* Nodes. Operands at the end that are NULL are left out; attributes: taken, may be NULL. */
OrtrainNode *ortrain_body_node (OrtrainBody *self, const char *op_type, OrtrainValue *const *inputs, guint n_inputs,
                                guint n_outputs, OrtrainAttributes *attributes);
OrtrainValue *ortrain_body_op (OrtrainBody *self, const char *op_type, OrtrainValue *a, OrtrainValue *b,
                               OrtrainValue *c);
OrtrainValue *ortrain_body_op_with (OrtrainBody *self, const char *op_type, OrtrainAttributes *attributes,
                                    OrtrainValue *a, OrtrainValue *b, OrtrainValue *c);
OrtrainAttributes *ortrain_body_attribute (const char *name, gint64 value);

/* Constants: one number in the type of `like`; int64 numbers. */
OrtrainValue *ortrain_body_number (OrtrainBody *self, const OrtrainValue *like, double number);
OrtrainValue *ortrain_body_ints (OrtrainBody *self, const gint64 *values, gint n);
/* 0, 1, 2, … as int64, in this shape. */
OrtrainValue *ortrain_body_count (OrtrainBody *self, const gint64 *dims, gint rank);
/* `like`'s type, all elements the same. */
OrtrainValue *ortrain_body_fill (OrtrainBody *self, const OrtrainValue *like, double number, const gint64 *dims,
                                 gint rank);

OrtrainValue *ortrain_body_cast (OrtrainBody *self, OrtrainValue *x, OrtrainDType dtype);
OrtrainValue *ortrain_body_reshape (OrtrainBody *self, OrtrainValue *x, const gint64 *dims, gint rank);
OrtrainValue *ortrain_body_transpose (OrtrainBody *self, OrtrainValue *x, const gint64 *perm, gint rank);
/* axes: bit i for axis i */
OrtrainValue *ortrain_body_reduce (OrtrainBody *self, const char *op_type, OrtrainValue *x, guint32 axes,
                                   gboolean keep);
/* Along one axis, from … to in steps of `step`. */
OrtrainValue *ortrain_body_slice (OrtrainBody *self, OrtrainValue *x, gint axis, gint64 from, gint64 to, gint64 step);
/* Each spatial axis (from 2 on) of x begins `begin[i]` elements later, with zeros in front of it where that is
 * negative, and has `length[i]` elements, with zeros at its end. */
OrtrainValue *ortrain_body_window (OrtrainBody *self, OrtrainValue *x, const gint64 *begin, const gint64 *length,
                                   gint n);
/* The sum over the axes that were broadcast from the shape `dims`. */
OrtrainValue *ortrain_body_sum_to (OrtrainBody *self, OrtrainValue *x, const gint64 *dims, gint rank);
/* Zeros in the shape of `dims`, to whose elements (counted in order) those of `x` are added. */
OrtrainValue *ortrain_body_scatter (OrtrainBody *self, OrtrainValue *x, OrtrainValue *indices, const gint64 *dims,
                                    gint rank);

/* The gradient of Gelu with tanh at x. */
OrtrainValue *ortrain_body_gelu_tanh_slope (OrtrainBody *self, OrtrainValue *x);

/* The bodies, by source file. */
gboolean ortrain_body_same (OrtrainBody *self); /* output 0 is input 0 */
/* One node of ONNX's operator, with the node's inputs, and its first `n_outputs` outputs; attributes: taken. */
gboolean ortrain_body_as (OrtrainBody *self, const char *op_type, guint n_outputs, OrtrainAttributes *attributes);

gboolean ortrain_body_chain (OrtrainBody *self);
gboolean ortrain_body_relu_grad (OrtrainBody *self);
gboolean ortrain_body_tanh_grad (OrtrainBody *self);
gboolean ortrain_body_sigmoid_grad (OrtrainBody *self);
gboolean ortrain_body_leaky_relu_grad (OrtrainBody *self);
gboolean ortrain_body_elu_grad (OrtrainBody *self);
gboolean ortrain_body_selu_grad (OrtrainBody *self);
gboolean ortrain_body_celu_grad (OrtrainBody *self);
gboolean ortrain_body_hard_sigmoid_grad (OrtrainBody *self);
gboolean ortrain_body_hard_swish_grad (OrtrainBody *self);
gboolean ortrain_body_softplus_grad (OrtrainBody *self);
gboolean ortrain_body_softsign_grad (OrtrainBody *self);
gboolean ortrain_body_erf_grad (OrtrainBody *self);
gboolean ortrain_body_gelu_grad (OrtrainBody *self);
gboolean ortrain_body_mish_grad (OrtrainBody *self);
gboolean ortrain_body_swish_grad (OrtrainBody *self);

gboolean ortrain_body_matmul (OrtrainBody *self);
gboolean ortrain_body_linear (OrtrainBody *self);
gboolean ortrain_body_linear_gelu (OrtrainBody *self);
gboolean ortrain_body_linear_gelu_grad (OrtrainBody *self);
gboolean ortrain_body_linear_grad (OrtrainBody *self);
/* Applies to x the mask of a Dropout node with the ratio in input `ratio` and `training` in the next input; returns x
 * if there is no ratio. */
OrtrainValue *ortrain_body_drop (OrtrainBody *self, OrtrainValue *x, guint ratio);
gboolean ortrain_body_attention (OrtrainBody *self);
gboolean ortrain_body_attention_grad (OrtrainBody *self);
gboolean ortrain_body_packed_attention (OrtrainBody *self);
gboolean ortrain_body_packed_attention_grad (OrtrainBody *self);
gboolean ortrain_body_relative_attention (OrtrainBody *self);
gboolean ortrain_body_relative_attention_grad (OrtrainBody *self);

gboolean ortrain_body_einsum (OrtrainBody *self);
gboolean ortrain_body_einsum_grad (OrtrainBody *self);

gboolean ortrain_body_softmax_grad (OrtrainBody *self);
gboolean ortrain_body_log_softmax_grad (OrtrainBody *self);
gboolean ortrain_body_cross_entropy (OrtrainBody *self);
gboolean ortrain_body_restore_cross_entropy (OrtrainBody *self);
gboolean ortrain_body_cross_entropy_grad (OrtrainBody *self);
gboolean ortrain_body_linear_cross_entropy (OrtrainBody *self);
gboolean ortrain_body_nll_grad (OrtrainBody *self);
gboolean ortrain_body_dropout_grad (OrtrainBody *self);

gboolean ortrain_body_norm_apply (OrtrainBody *self);
gboolean ortrain_body_batch_norm_train (OrtrainBody *self);
gboolean ortrain_body_restore_batch_norm (OrtrainBody *self);
gboolean ortrain_body_batch_norm_grad (OrtrainBody *self);
gboolean ortrain_body_batch_norm_relu_grad (OrtrainBody *self);
gboolean ortrain_body_batch_norm_frozen_grad (OrtrainBody *self);
gboolean ortrain_body_add_layer_norm (OrtrainBody *self);
gboolean ortrain_body_add_rms_norm (OrtrainBody *self);
gboolean ortrain_body_layer_norm_grad (OrtrainBody *self);
gboolean ortrain_body_rms_norm_grad (OrtrainBody *self);
gboolean ortrain_body_group_norm_statistics (OrtrainBody *self);
gboolean ortrain_body_group_norm_grad (OrtrainBody *self);
gboolean ortrain_body_lrn_grad (OrtrainBody *self);

gboolean ortrain_body_conv_grad_input (OrtrainBody *self);
gboolean ortrain_body_conv_grad_weight (OrtrainBody *self);
gboolean ortrain_body_conv_channels_last (OrtrainBody *self);
gboolean ortrain_body_conv_channels_last_transpose (OrtrainBody *self);
gboolean ortrain_body_conv_channels_last_grad_input (OrtrainBody *self);
gboolean ortrain_body_conv_channels_last_grad_weight (OrtrainBody *self);
gboolean ortrain_body_im2col (OrtrainBody *self);
gboolean ortrain_body_max_pool_train (OrtrainBody *self);
gboolean ortrain_body_max_pool_grad (OrtrainBody *self);
gboolean ortrain_body_average_pool_grad (OrtrainBody *self);
gboolean ortrain_body_global_max_pool_grad (OrtrainBody *self);
gboolean ortrain_body_lp_pool_grad (OrtrainBody *self);
gboolean ortrain_body_max_unpool_grad (OrtrainBody *self);
gboolean ortrain_body_resize_grad (OrtrainBody *self);

gboolean ortrain_body_recurrent_grad (OrtrainBody *self);
/* The first of `activations` with a parameter that is in no list and that ONNX has no default for, or NULL. list: the
 * attribute that the parameter is missing from; position: its index there */
const char *ortrain_recurrent_find_unset (const OrtrainAttributes *attributes, const char **list, guint *position);
gboolean ortrain_body_grid_sample_grad (OrtrainBody *self);

gboolean ortrain_body_gradient_norm (OrtrainBody *self);
gboolean ortrain_body_sgd_update (OrtrainBody *self);
gboolean ortrain_body_adam_update (OrtrainBody *self);
gboolean ortrain_body_lamb_update (OrtrainBody *self);
gboolean ortrain_body_adagrad_update (OrtrainBody *self);
gboolean ortrain_body_loss_scale_update (OrtrainBody *self);

gboolean ortrain_body_sum_to_shape (OrtrainBody *self);
gboolean ortrain_body_reduce_prod_grad (OrtrainBody *self);
gboolean ortrain_body_cum_prod_grad (OrtrainBody *self);
gboolean ortrain_body_gather_grad (OrtrainBody *self);
gboolean ortrain_body_gather_elements_grad (OrtrainBody *self);
gboolean ortrain_body_gather_nd_grad (OrtrainBody *self);
gboolean ortrain_body_compress_grad (OrtrainBody *self);
gboolean ortrain_body_concat_grad (OrtrainBody *self);
gboolean ortrain_body_split_grad (OrtrainBody *self);
gboolean ortrain_body_slice_grad (OrtrainBody *self);
gboolean ortrain_body_pad_grad (OrtrainBody *self);
gboolean ortrain_body_tile_grad (OrtrainBody *self);
