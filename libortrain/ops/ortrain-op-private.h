/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"

/* The operator table: one row per operator. A row knows no kernel and no provider.
 *
 * Old versions: `upgrade` rewrites a node as it stood in the model's operator set (1 to 28) into the newest form, once,
 * when a graph is created from a file (axes and the like become inputs; removed behaviours become several nodes).
 * Inference, gradients, passes and kernels therefore know one form only: that of operator set 23, or the first form of
 * operators that are newer. The file itself is
 * not changed: export writes the user's own nodes. */

typedef struct _OrtrainInferContext OrtrainInferContext;
typedef struct _OrtrainGradContext OrtrainGradContext;
typedef struct _OrtrainZeroSums OrtrainZeroSums;
typedef struct _OrtrainBody OrtrainBody;

typedef gboolean (*OrtrainInferFunc) (OrtrainInferContext *ctx, GError **error);
typedef gboolean (*OrtrainGradientFunc) (OrtrainGradContext *ctx, GError **error);
/* graph->opset is the file's. May replace the node by others; new nodes are inserted before it. */
typedef gboolean (*OrtrainUpgradeFunc) (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error);

typedef enum
{
  ORTRAIN_OP_NONE = 0,
  ORTRAIN_OP_POINTWISE = 1 << 0, /* element-wise with broadcasting: may enter a fused chain */
  ORTRAIN_OP_VIEW = 1 << 1,   /* output 0 is input 0 under another shape, of the same type (Reshape, Identity, …) */
  ORTRAIN_OP_RANDOM = 1 << 2, /* draws random numbers: never folded, never merged */
  ORTRAIN_OP_COMMUTATIVE = 1 << 3,  /* inputs 0 and 1 may change places */
  ORTRAIN_OP_NO_GRADIENT = 1 << 4,  /* piecewise constant, integer or logic: gradient is zero by definition */
  ORTRAIN_OP_SHAPE_ONLY = 1 << 5,   /* reads shapes, never elements (Shape, Size): its input need not live */
  ORTRAIN_OP_CONTROL = 1 << 6,      /* has subgraphs (If) */
  ORTRAIN_OP_NORMALIZES = 1 << 7,   /* inputs 1 and 2 are its scale and bias: ones and zeros where others follow */
  ORTRAIN_OP_DATA_SHAPED = 1 << 8,  /* the shape of its outputs depends on elements of its inputs */
  ORTRAIN_OP_VIEW_IF_SAME = 1 << 9, /* output 0 is input 0 where they have one type and shape (Expand, Cast, SumTo) */
  ORTRAIN_OP_SUM = 1 << 10,         /* output 0 is the sum of all inputs */
  ORTRAIN_OP_CONTRACTS = 1 << 11,   /* sums products: its kernels may add to the contents of the output */
  ORTRAIN_OP_HOST = 1 << 12,        /* its result is known when a plan is created: it needs no kernel of a device */
  ORTRAIN_OP_UPDATES = 1 << 13,     /* reads gradients in place, after everything has been added to them; may run as
                                       soon as nothing else reads the values that its outputs replace */
  ORTRAIN_OP_ONE_PASS = 1 << 14,    /* goes over its memory once or twice: computing output 0 again is cheap */
  ORTRAIN_OP_SUMMARIZES = 1 << 15,  /* computes a few numbers from input 0; the backward pass computes them again, they
                                       are not kept with it */
} OrtrainOpFlags;

/* The kind by which rewrites and patterns of fusions recognize an operator. Only operators that one of them looks for
 * have a kind. */
typedef enum
{
  ORTRAIN_OP_KIND_OTHER,
  ORTRAIN_OP_KIND_CONSTANT,
  ORTRAIN_OP_KIND_IDENTITY,
  ORTRAIN_OP_KIND_COPY, /* between the memory of the host and of the device */
  ORTRAIN_OP_KIND_OFFLOAD,
  ORTRAIN_OP_KIND_RELOAD,
  ORTRAIN_OP_KIND_ADD,
  ORTRAIN_OP_KIND_SUBTRACT,
  ORTRAIN_OP_KIND_MULTIPLY,
  ORTRAIN_OP_KIND_DIVIDE,
  ORTRAIN_OP_KIND_POWER,
  ORTRAIN_OP_KIND_SQUARE_ROOT,
  ORTRAIN_OP_KIND_ERF,
  ORTRAIN_OP_KIND_TANH,
  ORTRAIN_OP_KIND_GELU,
  ORTRAIN_OP_KIND_GELU_GRADIENT,
  ORTRAIN_OP_KIND_RECIPROCAL,
  ORTRAIN_OP_KIND_MEAN,   /* over axes */
  ORTRAIN_OP_KIND_SUM_TO, /* over the axes that were broadcast */
  ORTRAIN_OP_KIND_INSTANCE_NORM,
  ORTRAIN_OP_KIND_GROUP_NORM_GRADIENT,
  ORTRAIN_OP_KIND_NORM_APPLY,
  ORTRAIN_OP_KIND_RELU,
  ORTRAIN_OP_KIND_RELU_GRADIENT,
  ORTRAIN_OP_KIND_SOFTMAX,
  ORTRAIN_OP_KIND_DROPOUT,
  ORTRAIN_OP_KIND_WHERE,
  ORTRAIN_OP_KIND_IS_NAN,
  ORTRAIN_OP_KIND_CAST,
  ORTRAIN_OP_KIND_CAST_LIKE,
  ORTRAIN_OP_KIND_RESHAPE,
  ORTRAIN_OP_KIND_TRANSPOSE,
  ORTRAIN_OP_KIND_SPLIT,
  ORTRAIN_OP_KIND_EXPAND,
  ORTRAIN_OP_KIND_MATMUL,       /* of stacks of matrices */
  ORTRAIN_OP_KIND_FUSED_MATMUL, /* with transposes and a factor */
  ORTRAIN_OP_KIND_GEMM,
  ORTRAIN_OP_KIND_EQUAL,
  ORTRAIN_OP_KIND_TILE,
  ORTRAIN_OP_KIND_NOT,
  ORTRAIN_OP_KIND_GATHER_ELEMENTS,
  ORTRAIN_OP_KIND_LOOKUP, /* slices of input 0 along `axis`, at the indices in input 1 */
  ORTRAIN_OP_KIND_CROSS_ENTROPY,
  ORTRAIN_OP_KIND_CROSS_ENTROPY_GRADIENT,
  ORTRAIN_OP_KIND_NEGATIVE_LOG_LIKELIHOOD, /* of log-probabilities */
  ORTRAIN_OP_KIND_GRADIENT_NORM,           /* of all gradients: inputs are scalars, loss scale, gradients */
} OrtrainOpKind;

/* The function of input 0 that output 0 is, for operators that end models: losses then start from the scores. */
typedef enum
{
  ORTRAIN_SCORES_NONE,
  ORTRAIN_SCORES_KEPT,    /* the same elements in their order, in another type; views have a flag of their own */
  ORTRAIN_SCORES_SOFTMAX, /* probabilities, along the attribute `axis` */
  ORTRAIN_SCORES_LOG_SOFTMAX,
  ORTRAIN_SCORES_SIGMOID,
} OrtrainScores;

/* Where an output has its channels: the axes along which a weight computed one feature for each index. */
typedef enum
{
  ORTRAIN_CHANNELS_NONE,     /* nowhere, or not known. Element-wise rows and views need not say */
  ORTRAIN_CHANNELS_ALIGNED,  /* where the inputs have them, aligned as in broadcasting */
  ORTRAIN_CHANNELS_PERMUTED, /* where `perm` moves those of input 0 */
  ORTRAIN_CHANNELS_REDUCED,  /* those of input 0, without the axes in input 1 */
  ORTRAIN_CHANNELS_GATHERED, /* those of input 0, whose axis `axis` the indices replace */
  ORTRAIN_CHANNELS_PRODUCT,  /* matrix product: rows of input 0, columns of input 1 */
  ORTRAIN_CHANNELS_SECOND,   /* axis 1 */
  ORTRAIN_CHANNELS_LAST,     /* the last axis */
  ORTRAIN_CHANNELS_ANY,      /* somewhere */
} OrtrainChannels;

/* How an operator takes part in mixed precision. Operands whose types belong together change theirs together. */
typedef enum
{
  ORTRAIN_MIXED_BY_FLAGS, /* element-wise operators and views FOLLOW, all others are WIDE */
  ORTRAIN_MIXED_WIDE,     /* float32 in and out */
  ORTRAIN_MIXED_FOLLOW,   /* 16 bits if one of its data inputs has them; weights and constants follow */
  ORTRAIN_MIXED_NARROW,   /* 16 bits in and out; kernels sum in float32 */
  ORTRAIN_MIXED_INSIDE,   /* float32 inside, and output 0 in the type of input 0 */
  ORTRAIN_MIXED_KEPT,     /* the type that the file says: its bits are read */
} OrtrainMixedRule;

/* What an operator of our own computes in addition to the operator that names it in `fused_as`. */
typedef enum
{
  ORTRAIN_FUSION_ROW_SUMS, /* of a product: with input 0 transposed, and the sums of the rows of one operand as output 1
                            */
  ORTRAIN_FUSION_BIAS,     /* of a product: plus a vector */
  ORTRAIN_FUSION_BIAS_AND_GELU, /* of a product: plus a vector, then Gelu with tanh; output 1 is the operand of Gelu */
  ORTRAIN_FUSION_GELU_GRADIENT, /* of a product: the gradient of Gelu with tanh of it and a value of as many elements */
  ORTRAIN_FUSION_THREE_PRODUCTS, /* input 0 times three matrices, plus a vector each, with the results side by side */
  ORTRAIN_FUSION_SUM_BEFORE,     /* input 0 is a sum: its other term is the last input, the sum the last output */
  ORTRAIN_FUSION_SUM_AFTER,      /* output 0 plus the last input */
  ORTRAIN_FUSION_PACKED, /* inputs 0 to 2 are parts of one value, [batch, length, 3, heads, width], which it reads */
  ORTRAIN_FUSION_RELU_GRADIENT, /* of a gradient: input 0 is first multiplied by that of Relu; the bias is the last
                                   input */
  ORTRAIN_FUSION_CHANNELS_LAST, /* the same with channels last, on devices that have a kernel for it. None: any device
                                 * that computes this one also computes the nodes that put_channels_last () writes */
  ORTRAIN_N_FUSIONS,
} OrtrainFusion;

#define ORTRAIN_MAX_INPUT_ROLES 8

struct _OrtrainOpDef
{
  const char *name;
  const char *domain;          /* "" ONNX; ORTRAIN_DOMAIN; "ai.onnx.preview.training" */
  gint since;                  /* first operator set of `domain` that has it (7 for those older than 7) */
  gint min_inputs, max_inputs; /* max -1: any number */
  gint min_outputs, max_outputs;
  OrtrainDTypeSet dtypes; /* of input 0 (of output 0 when there is no input); 0: any */
  guint32 flags;          /* OrtrainOpFlags */
  guint32 shape_inputs;   /* bit i: the elements of input i decide shapes, and are needed when a plan is created */
  guint32
      no_grad_inputs; /* bit i: no gradient flows into input i (indices, axes, shapes, conditions). Where a trained
                         value reaches one of a floating type, that is an error, unless zero_grad_inputs has it, too */
  OrtrainInferFunc infer;
  OrtrainGradientFunc gradient; /* NULL with NO_GRADIENT: none is needed; NULL without: not differentiable */
  OrtrainUpgradeFunc upgrade;   /* NULL: the form never changed */
  /* The type of each input: one letter per input, the last one for all inputs after it. A digit: the type of that
   * input. b: bool, f: floating, s: float32, i: int32 or int64, l: int64, n: numeric, q: int8 or uint8, *: any; a dot:
   * the types in `dtypes`, for input 0. NULL: there is no second input. */
  const char *types;
  OrtrainScores scores;
  /* Requirements on operands, in addition to their types. Bit i: input i … */
  guint32 vector_inputs;    /* … has rank 1 (or 0, as exporters write a single number) */
  guint32 scalar_inputs;    /* … has one element */
  guint32 shaped_inputs;    /* … has the shape of input 0 */
  guint32 optional_inputs;  /* … may be left out before others; those from min_inputs on may anyway */
  guint32 zero_grad_inputs; /* … changes the output not at all, or only in steps: its gradient is zero by definition,
                               though it is of a floating type */
  guint32 open_inputs;      /* … is a mask, which may be left out where all its elements are true, or zero */
  guint32 broadcast_inputs; /* … is broadcast to a shape that it takes no part in: it may have fewer elements where they
                                are the same. Element-wise rows need not say */
  guint32 difference_inputs; /* … is a matrix of indices, or a vector where element [i, j] is a function of j - i: its
                                element j - i + rows - 1 */

  /* Roles of operands that come from the file and not from data; they determine which initializers training changes. */
  guint32 weight_inputs;  /* bit i: input i is a weight */
  guint32 scale_inputs;   /* bit i: input i multiplies the others, broadcast against them */
  guint32 shift_inputs;   /* bit i: input i is added to the others, or replaces their elements, likewise */
  guint32 join_inputs;    /* bit i: input i is joined to the others along `axis` */
  guint32 weight_through; /* bit i: input i is a weight if the output is one; of views, input 0 always */
  OrtrainChannels channels;
  const char *input_roles[ORTRAIN_MAX_INPUT_ROLES]; /* "weight", "limit", as reports name the operand; or NULL */

  /* For passes. */
  OrtrainOpKind kind;
  /* For each OrtrainFusion: the operator of our own that computes this and more at once. NULL: none. */
  const char *fused_as[ORTRAIN_N_FUSIONS];
  /* Not 0: this input, which may be left out, is output 0 of the node that input `reused_beside` is another output of.
   * The result does not depend on it, but it saves work on a device whose kernel uses it. */
  guint8 reused_input, reused_beside;
  OrtrainMixedRule mixed;
  /* The input that output 0 is, element by element, where the two have one type and shape; -1: none. NULL: as the flags
   * say. */
  gint (*find_passed_input) (const OrtrainNode *node);
  /* For SHAPE_ONLY rows: output 0, from the shape of input 0. */
  OrtrainTensor *(*evaluate_shape) (const OrtrainNode *node, const gint64 *dims, gsize rank, GError **error);
  /* For rows that occur in gradients: which sums of the outputs are exactly zero; ortrain-zero-sums-private.h */
  void (*zero_sums) (OrtrainZeroSums *sums, OrtrainNode *node);

  /* For our own operators, and Einsum: writes the same in standard operators; FALSE where they cannot.
   * ortrain-body-private.h */
  gboolean (*expand) (OrtrainBody *body);
  const char *no_body; /* why it has no body */
  /* For our own operators that upgrades write: the same in operators of ONNX, for any sizes. */
  gboolean (*restore) (OrtrainBody *body);

  /* Bit k: output k is a statistic, a few numbers computed from input 0, that the backward pass reads. 0: no such
   * output. */
  guint32 saved_outputs;
  /* Moves output 0 to an element-wise node that computes it of such statistics, in nodes before `before` (NULL: at the
   * end); or does nothing. NULL: there is no such node. */
  gboolean (*split) (OrtrainNode *node, OrtrainNode *before, GError **error);

  /* Layouts. Fills bits of the inputs and outputs of a node that are [batch, channels, height, width], and may have
   * their channels last instead; FALSE: this node cannot. NULL: none can. Element-wise rows need not say. Shapes are
   * numbers. */
  gboolean (*find_images) (const OrtrainNode *node, guint32 *inputs, guint32 *outputs);
  /* Rewrites a node whose images have become [batch, height, width, channels]. */
  gboolean (*put_channels_last) (OrtrainNode *node, GError **error);

  /* Layers that compute something else while training. */
  guint32 statistic_inputs; /* bit i: input i is a running statistic. In training form, its k-th one's next contents are
                             * output 1 + k */
  const char *training_form;  /* the row (ORTRAIN_DOMAIN) that stands for this one in a training step */
  const char *inference_form; /* the row (domain "") that this one is the training form of */
  guint training_input;       /* the input that says whether the layer trains; 0: none does */

  gint form_since; /* first operator set in which it has the form that the row describes; 0: `since` */

  const char *unsupported; /* why no model with the operator runs (the row exists only for that error), or NULL */
  const char *instead;     /* a hint where it is not supported, or has no gradient; or NULL */
};

/* `instead` of operators whose weights are integers. */
#define ORTRAIN_QUANTIZED_INSTEAD                                                                                      \
  "the file is quantized: train the float model that it was made from, and quantize the result"

/* The contents of a Constant node, in whatever form they are; NULL of other nodes, or where they cannot be read. */
OrtrainTensor *ortrain_ops_dup_constant (const OrtrainNode *node);

typedef struct
{
  const OrtrainOpDef *ops;
  guint n_ops;
} OrtrainOpTable;

#define ORTRAIN_OP_TABLE(family, rows)                                                                                 \
  extern const OrtrainOpTable ortrain_ops_##family;                                                                    \
  const OrtrainOpTable ortrain_ops_##family = { (rows), G_N_ELEMENTS (rows) }

static inline OrtrainOpKind
ortrain_node_get_kind (const OrtrainNode *node)
{
  return node->op != NULL ? node->op->kind : ORTRAIN_OP_KIND_OTHER;
}

static inline gboolean
ortrain_node_has_flag (const OrtrainNode *node, OrtrainOpFlags flag)
{
  return node->op != NULL && (node->op->flags & flag) != 0;
}

/* Whether its only output is the bytes of input 0. Shapes are numbers. */
gboolean ortrain_node_is_view (const OrtrainNode *node);

static inline gboolean
ortrain_node_is_update (const OrtrainNode *node)
{
  return node->is_update || ortrain_node_has_flag (node, ORTRAIN_OP_UPDATES);
}

/* The node that computes the value, if it is of that kind; or NULL. */
static inline OrtrainNode *
ortrain_value_get_producer_of_kind (const OrtrainValue *value, OrtrainOpKind kind)
{
  return value != NULL && value->producer != NULL && ortrain_node_get_kind (value->producer) == kind ? value->producer
                                                                                                     : NULL;
}

/* NULL when unknown. */
const OrtrainOpDef *ortrain_ops_lookup (const char *domain, const char *op_type);
guint ortrain_ops_get_n (void);
const OrtrainOpDef *ortrain_ops_get_nth (guint index);

/* Looks up every node's row, checks arity and types; all unknown operators are listed in one error. Subgraphs too. */
gboolean ortrain_ops_bind (OrtrainGraph *graph, GError **error);
/* A graph from outside must not have operators of our own domain: passes and gradient rules write those, for kernels
 * that trust them. Subgraphs too. */
gboolean ortrain_ops_check_foreign (OrtrainGraph *graph, GError **error);
/* Looks up the rows alone. */
gboolean ortrain_ops_bind_names (OrtrainGraph *graph, GError **error);
/* Calls func for every subgraph of a node, until it returns FALSE. */
typedef gboolean (*OrtrainSubgraphFunc) (OrtrainGraph *graph, gpointer data, GError **error);
gboolean ortrain_ops_each_subgraph (OrtrainNode *node, OrtrainSubgraphFunc func, gpointer data, GError **error);
/* Types and shapes of all values, in graph order (sorts first). Declared shapes that inference contradicts are written
 * into graph->notes and ignored; declared ones that inference does not find are used. */
gboolean ortrain_ops_infer (OrtrainGraph *graph, GError **error);
/* One node, whose inputs are known. Binds the row when needed. For passes that add nodes. */
gboolean ortrain_ops_infer_node (OrtrainNode *node, GError **error);

/* For rows: output 0 is the input if there is only one. */
gint ortrain_op_pass_only_input (const OrtrainNode *node);

/* ---- For inference functions (ctx is one node) ---- */
struct _OrtrainInferContext
{
  OrtrainNode *node;
  OrtrainDimSpace *dims;
  gint excess_rank; /* of a result with more dimensions than are supported, which `infer` wanted to set; 0: none */
};

#define ortrain_infer_input(ctx, i) ortrain_node_input ((ctx)->node, i)
guint ortrain_infer_get_n_inputs (OrtrainInferContext *ctx);
guint ortrain_infer_get_n_outputs (OrtrainInferContext *ctx);
gboolean ortrain_infer_has_input (OrtrainInferContext *ctx, guint i);
gboolean ortrain_infer_wants_output (OrtrainInferContext *ctx, guint k);
OrtrainDType ortrain_infer_get_dtype (OrtrainInferContext *ctx, guint i); /* UNDEFINED if absent or unknown */
gint ortrain_infer_get_rank (OrtrainInferContext *ctx, guint i);          /* -1 if absent or unknown */
const OrtrainDim *ortrain_infer_get_dims (OrtrainInferContext *ctx, guint i);
OrtrainDim ortrain_infer_get_dim (OrtrainInferContext *ctx, guint i, gint axis); /* axis already in range */
/* The elements of an integer input, from its contents or symbolically. FALSE when nothing is known. */
gboolean ortrain_infer_get_content (OrtrainInferContext *ctx, guint i, const OrtrainDim **content, gint *n);
/* The same as numbers; FALSE unless all are numbers. Free with g_free. */
gboolean ortrain_infer_get_ints (OrtrainInferContext *ctx, guint i, gint64 **values, gint *n);
void ortrain_infer_set (OrtrainInferContext *ctx, guint k, OrtrainDType dtype, const OrtrainDim *dims, gint rank);
void ortrain_infer_set_unknown (OrtrainInferContext *ctx, guint k, OrtrainDType dtype,
                                gint rank);                               /* rank -1: unknown */
void ortrain_infer_set_like (OrtrainInferContext *ctx, guint k, guint i); /* type and shape of input i */
void ortrain_infer_set_content (OrtrainInferContext *ctx, guint k, const OrtrainDim *content, gint n);
/* Type, shape and elements, of an operator that needs no kernel (HOST). */
void ortrain_infer_set_tensor (OrtrainInferContext *ctx, guint k, OrtrainTensor *tensor);
/* Negative axes counted from the end; GRAPH_ERROR_ATTRIBUTE with the node's name when out of range. */
gboolean ortrain_infer_axis (OrtrainInferContext *ctx, gint64 axis, gint rank, gint *result, GError **error);
gboolean
ortrain_infer_broadcast (OrtrainInferContext *ctx, guint first, guint last, OrtrainDim *dims, gint *rank,
                         GError **error); /* over inputs first…last; *rank -1 when unknown; dims has room for 16 */
/* Input i is absent, of unknown shape, or [n], as far as n is known. */
gboolean ortrain_infer_vector (OrtrainInferContext *ctx, guint i, OrtrainDim n, GError **error);
/* Input i is absent, or can have this shape. */
gboolean ortrain_infer_expect (OrtrainInferContext *ctx, guint i, const OrtrainDim *dims, gint rank, GError **error);
/* Input i is absent, or can have n elements; n < 0: not known. */
gboolean ortrain_infer_expect_count (OrtrainInferContext *ctx, guint i, gint64 n, GError **error);
/* The shapes of inputs i and j can be the same. */
gboolean ortrain_infer_same_shape (OrtrainInferContext *ctx, guint i, guint j, GError **error);
/* The number of elements of input i, or -1. */
gint64 ortrain_infer_get_n_elements (OrtrainInferContext *ctx, guint i);
/* The one element of input i, where it is known. */
gboolean ortrain_infer_get_number (OrtrainInferContext *ctx, guint i, double *number);
/* "Gemm 'fc1': " and the message. Returns FALSE. */
gboolean ortrain_infer_fail (OrtrainInferContext *ctx, GError **error, OrtrainGraphError code, const char *format, ...)
    G_GNUC_PRINTF (4, 5);

/* Ready-made inference functions. */
gboolean ortrain_infer_unary (OrtrainInferContext *ctx, GError **error); /* output 0 like input 0 */
gboolean ortrain_infer_elementwise (OrtrainInferContext *ctx,
                                    GError **error);                       /* all inputs broadcast, type of input 0 */
gboolean ortrain_infer_compare (OrtrainInferContext *ctx, GError **error); /* all inputs broadcast, bool */

/* ---- For upgrade functions ---- */
/* Moves attribute `name` (ints, int or float) to input `index` as a constant; nothing happens if it is absent. */
void ortrain_upgrade_attribute_to_input (OrtrainGraph *graph, OrtrainNode *node, const char *name, guint index);
/* A number in the type of `like`, which may not be known yet: then it is converted by a node before `before`. */
OrtrainValue *ortrain_upgrade_const_like (OrtrainGraph *graph, OrtrainNode *before, double number, OrtrainValue *like);
/* Adds a node before `before` and returns output 0; op_type of domain "". attributes: taken, may be NULL. */
OrtrainValue *ortrain_upgrade_insert (OrtrainGraph *graph, OrtrainNode *before, const char *op_type,
                                      OrtrainValue *const *inputs, guint n_inputs, OrtrainAttributes *attributes);
