/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fake-cuda.h"
#include "fake-cudnn-descriptors.h"

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

/* cuDNN's backend: descriptors with strict checks (values that are unknown, missing, of another type or not final are
 * refused), three engines for each graph, and execution on the host. */

/* Bytes of workspace that the first engine needs; each further one needs half of it. */
static int64_t
get_least_workspace (int64_t engine)
{
  const char *text = getenv ("ORTRAIN_FAKE_CUDNN_WORKSPACE");
  return (text != nullptr ? strtoll (text, nullptr, 10) : 4096) >> engine;
}

struct OrtrainFakeDnn
{
  int device;
  cudaStream_t stream;
};

static thread_local std::string last_error;

static cudnnStatus_t
fail (cudnnStatus_t status, const std::string &text)
{
  last_error = text;
  return status;
}

/* ---- the parts of descriptors ---- */

struct Rule
{
  cudnnBackendDescriptorType_t descriptor;
  int name;
  cudnnBackendAttributeType_t type;
  int64_t least, most; /* elements; least 0: it may be missing */
};

#define RULE(descriptor, name, type, least, most)                                                                      \
  {                                                                                                                    \
    CUDNN_BACKEND_##descriptor##_DESCRIPTOR, CUDNN_ATTR_##name, CUDNN_TYPE_##type, least, most                         \
  }
#define CONVOLUTION_RULES(kind, a, b, c, prefix)                                                                       \
  RULE (kind, prefix##_ALPHA, FLOAT, 1, 1), RULE (kind, prefix##_BETA, FLOAT, 1, 1),                                   \
      RULE (kind, prefix##_CONV_DESC, BACKEND_DESCRIPTOR, 1, 1), RULE (kind, prefix##_##a, BACKEND_DESCRIPTOR, 1, 1),  \
      RULE (kind, prefix##_##b, BACKEND_DESCRIPTOR, 1, 1), RULE (kind, prefix##_##c, BACKEND_DESCRIPTOR, 1, 1)

static const Rule rules[] = {
  RULE (TENSOR, TENSOR_BYTE_ALIGNMENT, INT64, 1, 1),
  RULE (TENSOR, TENSOR_DATA_TYPE, DATA_TYPE, 1, 1),
  RULE (TENSOR, TENSOR_DIMENSIONS, INT64, 1, 8),
  RULE (TENSOR, TENSOR_STRIDES, INT64, 1, 8),
  RULE (TENSOR, TENSOR_UNIQUE_ID, INT64, 1, 1),
  RULE (TENSOR, TENSOR_IS_VIRTUAL, BOOLEAN, 0, 1),
  RULE (TENSOR, TENSOR_IS_BY_VALUE, BOOLEAN, 0, 1),
  RULE (POINTWISE, POINTWISE_MODE, POINTWISE_MODE, 1, 1),
  RULE (POINTWISE, POINTWISE_MATH_PREC, DATA_TYPE, 1, 1),
  RULE (POINTWISE, POINTWISE_AXIS, INT64, 0, 1),
  RULE (CONVOLUTION, CONVOLUTION_COMP_TYPE, DATA_TYPE, 1, 1),
  RULE (CONVOLUTION, CONVOLUTION_CONV_MODE, CONVOLUTION_MODE, 1, 1),
  RULE (CONVOLUTION, CONVOLUTION_DILATIONS, INT64, 2, 3),
  RULE (CONVOLUTION, CONVOLUTION_FILTER_STRIDES, INT64, 2, 3),
  RULE (CONVOLUTION, CONVOLUTION_POST_PADDINGS, INT64, 2, 3),
  RULE (CONVOLUTION, CONVOLUTION_PRE_PADDINGS, INT64, 2, 3),
  RULE (CONVOLUTION, CONVOLUTION_SPATIAL_DIMS, INT64, 1, 1),
  RULE (MATMUL, MATMUL_COMP_TYPE, DATA_TYPE, 1, 1),
  RULE (REDUCTION, REDUCTION_OPERATOR, REDUCTION_OPERATOR_TYPE, 1, 1),
  RULE (REDUCTION, REDUCTION_COMP_TYPE, DATA_TYPE, 1, 1),
  RULE (RESAMPLE, RESAMPLE_MODE, RESAMPLE_MODE, 1, 1),
  RULE (RESAMPLE, RESAMPLE_COMP_TYPE, DATA_TYPE, 1, 1),
  RULE (RESAMPLE, RESAMPLE_NAN_PROPAGATION, NAN_PROPOGATION, 1, 1),
  RULE (RESAMPLE, RESAMPLE_PADDING_MODE, PADDING_MODE, 1, 1),
  RULE (RESAMPLE, RESAMPLE_SPATIAL_DIMS, INT64, 1, 1),
  RULE (RESAMPLE, RESAMPLE_WINDOW_DIMS, INT64, 2, 3),
  RULE (RESAMPLE, RESAMPLE_STRIDES, INT64, 2, 3),
  RULE (RESAMPLE, RESAMPLE_PRE_PADDINGS, INT64, 2, 3),
  RULE (RESAMPLE, RESAMPLE_POST_PADDINGS, INT64, 2, 3),
  RULE (OPERATION_RESAMPLE_FWD, OPERATION_RESAMPLE_FWD_XDESC, BACKEND_DESCRIPTOR, 1, 1),
  RULE (OPERATION_RESAMPLE_FWD, OPERATION_RESAMPLE_FWD_YDESC, BACKEND_DESCRIPTOR, 1, 1),
  RULE (OPERATION_RESAMPLE_FWD, OPERATION_RESAMPLE_FWD_DESC, BACKEND_DESCRIPTOR, 1, 1),
  RULE (OPERATION_RESAMPLE_BWD, OPERATION_RESAMPLE_BWD_DYDESC, BACKEND_DESCRIPTOR, 1, 1),
  RULE (OPERATION_RESAMPLE_BWD, OPERATION_RESAMPLE_BWD_DXDESC, BACKEND_DESCRIPTOR, 1, 1),
  RULE (OPERATION_RESAMPLE_BWD, OPERATION_RESAMPLE_BWD_DESC, BACKEND_DESCRIPTOR, 1, 1),
  CONVOLUTION_RULES (OPERATION_CONVOLUTION_FORWARD, X, W, Y, OPERATION_CONVOLUTION_FORWARD),
  CONVOLUTION_RULES (OPERATION_CONVOLUTION_BACKWARD_DATA, DY, W, DX, OPERATION_CONVOLUTION_BWD_DATA),
  CONVOLUTION_RULES (OPERATION_CONVOLUTION_BACKWARD_FILTER, DY, X, DW, OPERATION_CONVOLUTION_BWD_FILTER),
  RULE (OPERATION_POINTWISE, OPERATION_POINTWISE_PW_DESCRIPTOR, BACKEND_DESCRIPTOR, 1, 1),
  RULE (OPERATION_POINTWISE, OPERATION_POINTWISE_XDESC, BACKEND_DESCRIPTOR, 1, 1),
  RULE (OPERATION_POINTWISE, OPERATION_POINTWISE_BDESC, BACKEND_DESCRIPTOR, 0, 1),
  RULE (OPERATION_POINTWISE, OPERATION_POINTWISE_YDESC, BACKEND_DESCRIPTOR, 1, 1),
  RULE (OPERATION_POINTWISE, OPERATION_POINTWISE_TDESC, BACKEND_DESCRIPTOR, 0, 1),
  RULE (OPERATION_MATMUL, OPERATION_MATMUL_ADESC, BACKEND_DESCRIPTOR, 1, 1),
  RULE (OPERATION_MATMUL, OPERATION_MATMUL_BDESC, BACKEND_DESCRIPTOR, 1, 1),
  RULE (OPERATION_MATMUL, OPERATION_MATMUL_CDESC, BACKEND_DESCRIPTOR, 1, 1),
  RULE (OPERATION_MATMUL, OPERATION_MATMUL_DESC, BACKEND_DESCRIPTOR, 1, 1),
  RULE (OPERATION_MATMUL, OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, BACKEND_DESCRIPTOR, 0, 1),
  RULE (OPERATION_MATMUL, OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, BACKEND_DESCRIPTOR, 0, 1),
  RULE (OPERATION_MATMUL, OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, BACKEND_DESCRIPTOR, 0, 1),
  RULE (OPERATION_REDUCTION, OPERATION_REDUCTION_XDESC, BACKEND_DESCRIPTOR, 1, 1),
  RULE (OPERATION_REDUCTION, OPERATION_REDUCTION_YDESC, BACKEND_DESCRIPTOR, 1, 1),
  RULE (OPERATION_REDUCTION, OPERATION_REDUCTION_DESC, BACKEND_DESCRIPTOR, 1, 1),
  RULE (OPERATION_RESHAPE, OPERATION_RESHAPE_XDESC, BACKEND_DESCRIPTOR, 1, 1),
  RULE (OPERATION_RESHAPE, OPERATION_RESHAPE_YDESC, BACKEND_DESCRIPTOR, 1, 1),
  RULE (OPERATIONGRAPH, OPERATIONGRAPH_OPS, BACKEND_DESCRIPTOR, 1, 64),
  RULE (OPERATIONGRAPH, OPERATIONGRAPH_HANDLE, HANDLE, 0, 1),
  RULE (ENGINEHEUR, ENGINEHEUR_OPERATION_GRAPH, BACKEND_DESCRIPTOR, 1, 1),
  RULE (ENGINEHEUR, ENGINEHEUR_MODE, HEUR_MODE, 1, 1),
  RULE (ENGINEHEUR, ENGINEHEUR_DEVICEPROP, BACKEND_DESCRIPTOR, 0, 1),
  RULE (ENGINE, ENGINE_OPERATION_GRAPH, BACKEND_DESCRIPTOR, 1, 1),
  RULE (ENGINE, ENGINE_GLOBAL_INDEX, INT64, 1, 1),
  RULE (KNOB_CHOICE, KNOB_CHOICE_KNOB_TYPE, KNOB_TYPE, 1, 1),
  RULE (KNOB_CHOICE, KNOB_CHOICE_KNOB_VALUE, INT64, 1, 1),
  RULE (ENGINECFG, ENGINECFG_ENGINE, BACKEND_DESCRIPTOR, 1, 1),
  RULE (ENGINECFG, ENGINECFG_KNOB_CHOICES, BACKEND_DESCRIPTOR, 0, 8),
  RULE (EXECUTION_PLAN, EXECUTION_PLAN_ENGINE_CONFIG, BACKEND_DESCRIPTOR, 0, 1),
  RULE (EXECUTION_PLAN, EXECUTION_PLAN_JSON_REPRESENTATION, CHAR, 0, 8 << 20),
  RULE (EXECUTION_PLAN, EXECUTION_PLAN_HANDLE, HANDLE, 0, 1),
  RULE (DEVICEPROP, DEVICEPROP_HANDLE, HANDLE, 0, 1),
  RULE (DEVICEPROP, DEVICEPROP_JSON_REPRESENTATION, CHAR, 0, 1 << 16),
  RULE (VARIANT_PACK, VARIANT_PACK_UNIQUE_IDS, INT64, 1, 64),
  RULE (VARIANT_PACK, VARIANT_PACK_DATA_POINTERS, VOID_PTR, 1, 64),
  RULE (VARIANT_PACK, VARIANT_PACK_WORKSPACE, VOID_PTR, 1, 1),
};

static size_t
get_size (cudnnBackendAttributeType_t type)
{
  switch (type)
    {
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
      return 1;
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    default:
      return 4;
    }
}

static const Rule *
find_rule (cudnnBackendDescriptorType_t descriptor, int name)
{
  for (const Rule &rule : rules)
    if (rule.descriptor == descriptor && rule.name == name)
      return &rule;
  return nullptr;
}

/* ---- graphs ---- */

static int
add_tensor (FakeGraph *graph, std::map<int64_t, int> *numbers, const Descriptor *tensor)
{
  if (tensor == nullptr)
    return -1;
  const int64_t id = tensor->get<int64_t> (CUDNN_ATTR_TENSOR_UNIQUE_ID);
  const auto found = numbers->find (id);
  if (found != numbers->end ())
    return found->second;
  const int number = (int) graph->tensors.size ();
  graph->tensors.push_back ({ (cudnnDataType_t) tensor->get<int> (CUDNN_ATTR_TENSOR_DATA_TYPE),
                              tensor->ints (CUDNN_ATTR_TENSOR_DIMENSIONS), tensor->ints (CUDNN_ATTR_TENSOR_STRIDES),
                              tensor->get<bool> (CUDNN_ATTR_TENSOR_IS_VIRTUAL),
                              tensor->get<bool> (CUDNN_ATTR_TENSOR_IS_BY_VALUE), nullptr, 0 });
  (*numbers)[id] = number;
  return number;
}

static void
set_operands (FakeGraph *graph, std::map<int64_t, int> *numbers, const Descriptor *from, FakeOperation *to, int a,
              int b, int c, int d = -1)
{
  const int names[4] = { a, b, c, d };
  for (int i = 0; i < 4; i++)
    to->operands[i] = names[i] >= 0 ? add_tensor (graph, numbers, from->child (names[i])) : -1;
}

static void
read_pool (const Descriptor *detail, FakeOperation *to)
{
  to->mode = detail->get<int> (CUDNN_ATTR_RESAMPLE_MODE);
  to->nan_stays = detail->get<int> (CUDNN_ATTR_RESAMPLE_NAN_PROPAGATION) == CUDNN_PROPAGATE_NAN;
  to->size = detail->ints (CUDNN_ATTR_RESAMPLE_WINDOW_DIMS);
  to->stride = detail->ints (CUDNN_ATTR_RESAMPLE_STRIDES);
  to->pad = detail->ints (CUDNN_ATTR_RESAMPLE_PRE_PADDINGS);
  to->pad_end = detail->ints (CUDNN_ATTR_RESAMPLE_POST_PADDINGS);
}

static FakeOperation
read_operation (FakeGraph *graph, std::map<int64_t, int> *numbers, const Descriptor *from)
{
  FakeOperation to;
  const Descriptor *detail = nullptr;
  to.type = from->type;
  switch (from->type)
    {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      detail = from->child (CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC);
      set_operands (graph, numbers, from, &to, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y);
      break;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      detail = from->child (CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC);
      set_operands (graph, numbers, from, &to, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX);
      break;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      detail = from->child (CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC);
      set_operands (graph, numbers, from, &to, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW);
      break;
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
      detail = from->child (CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
      to.mode = detail->get<int> (CUDNN_ATTR_POINTWISE_MODE);
      to.axis = detail->get<int64_t> (CUDNN_ATTR_POINTWISE_AXIS, -1);
      set_operands (graph, numbers, from, &to, CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                    CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_ATTR_OPERATION_POINTWISE_YDESC,
                    CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
      return to;
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      set_operands (graph, numbers, from, &to, CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC,
                    CUDNN_ATTR_OPERATION_MATMUL_CDESC);
      return to;
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
      to.mode = from->child (CUDNN_ATTR_OPERATION_REDUCTION_DESC)->get<int> (CUDNN_ATTR_REDUCTION_OPERATOR);
      set_operands (graph, numbers, from, &to, CUDNN_ATTR_OPERATION_REDUCTION_XDESC,
                    CUDNN_ATTR_OPERATION_REDUCTION_YDESC, -1);
      return to;
    case CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR:
      read_pool (from->child (CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC), &to);
      set_operands (graph, numbers, from, &to, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC,
                    CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC, -1);
      return to;
    case CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR:
      read_pool (from->child (CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DESC), &to);
      set_operands (graph, numbers, from, &to, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC,
                    CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC, -1);
      return to;
    default:
      set_operands (graph, numbers, from, &to, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, CUDNN_ATTR_OPERATION_RESHAPE_YDESC,
                    -1);
      return to;
    }
  to.pad = detail->ints (CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
  to.stride = detail->ints (CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
  to.dilation = detail->ints (CUDNN_ATTR_CONVOLUTION_DILATIONS);
  return to;
}

static FakeGraph
read_graph (const Descriptor *graph, std::map<int64_t, int> *numbers)
{
  FakeGraph result;
  for (int64_t i = 0; i < graph->count (CUDNN_ATTR_OPERATIONGRAPH_OPS); i++)
    result.operations.push_back (read_operation (&result, numbers, graph->child (CUDNN_ATTR_OPERATIONGRAPH_OPS, i)));
  return result;
}

static bool
is_pool (const FakeOperation &operation)
{
  return !operation.size.empty ();
}

static bool
is_convolution (const FakeOperation &operation)
{
  return !operation.stride.empty () && !is_pool (operation);
}

/* ---- layouts ---- */

static bool
is_in_order (const FakeTensor &tensor, bool last)
{
  int64_t step = last ? tensor.dims[1] : 1;
  for (size_t d = tensor.dims.size (); d-- > (last ? 2 : 0); step *= tensor.dims[d])
    if (tensor.dims[d] > 1 && tensor.strides[d] != step)
      return false;
  return !last ||
         ((tensor.dims[1] == 1 || tensor.strides[1] == 1) && (tensor.dims[0] == 1 || tensor.strides[0] == step));
}

/* Whether all operands of the graph's convolution lie in one order. */
static bool
has_layout (const FakeGraph &graph, bool last)
{
  for (const FakeTensor &tensor : graph.tensors)
    if (!tensor.by_value && !is_in_order (tensor, last))
      return false;
  return true;
}

/* As the library on a GPU with tensor cores: in 16 bits they compute where channels are last. Where they are not, the
 * first engine copies the images into its workspace, in that layout. */
static bool
copies_layout (const FakeGraph &graph, int64_t engine)
{
  return engine == 0 && is_convolution (graph.operations[0]) && !has_layout (graph, true) &&
         (graph.tensors[0].type == CUDNN_DATA_BFLOAT16 || graph.tensors[0].type == CUDNN_DATA_HALF);
}

static bool
has_tensor_cores (const FakeGraph &graph, int64_t engine)
{
  const bool narrow = graph.tensors[0].type == CUDNN_DATA_BFLOAT16 || graph.tensors[0].type == CUDNN_DATA_HALF;
  return engine == 2 || (is_convolution (graph.operations[0]) && narrow &&
                         (has_layout (graph, true) || copies_layout (graph, engine)));
}

static int64_t
get_workspace (const FakeGraph &graph, int64_t engine)
{
  int64_t bytes = get_least_workspace (engine);
  for (size_t i = 0; i < graph.tensors.size () && copies_layout (graph, engine); i++)
    {
      int64_t n = graph.tensors[i].is_virtual ? 0 : 2;
      for (int64_t dim : graph.tensors[i].dims)
        n *= dim;
      bytes += n;
    }
  return bytes;
}

static FakeGraph
read_graph (const Descriptor *graph)
{
  std::map<int64_t, int> numbers;
  return read_graph (graph, &numbers);
}

/* NULL: none. */
static const char *
find_fault_of_pool (const FakeGraph &graph, const FakeOperation &operation)
{
  const bool forward = operation.type == CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR;
  const FakeTensor &x = graph.tensors[(size_t) operation.operands[forward ? 0 : 1]];
  const FakeTensor &y = graph.tensors[(size_t) operation.operands[forward ? 1 : 0]];
  const size_t n = operation.size.size ();
  if (x.dims.size () != n + 2 || y.dims.size () != n + 2 || operation.stride.size () != n ||
      operation.pad.size () != n || operation.pad_end.size () != n)
    return "ranks of a pool differ";
  if (x.dims[0] != y.dims[0] || x.dims[1] != y.dims[1])
    return "images or channels of a pool differ";
  for (size_t i = 0; i < n; i++)
    if (operation.pad[i] < 0 || operation.pad_end[i] < 0 ||
        y.dims[2 + i] !=
            (x.dims[2 + i] + operation.pad[i] + operation.pad_end[i] - operation.size[i]) / operation.stride[i] + 1)
      return "the sizes of a pool do not follow from its window";
  return nullptr;
}

/* NULL: none. */
static const char *
find_fault_of_window (const FakeGraph &graph, const FakeOperation &operation, const Descriptor *detail)
{
  const bool forward = operation.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
  const bool data = operation.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
  const FakeTensor &x = graph.tensors[(size_t) operation.operands[forward ? 0 : data ? 2 : 1]];
  const FakeTensor &w = graph.tensors[(size_t) operation.operands[forward || data ? 1 : 2]];
  const FakeTensor &y = graph.tensors[(size_t) operation.operands[forward ? 2 : 0]];
  const std::vector<int64_t> post = detail->ints (CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
  const size_t n = operation.stride.size ();
  if (x.dims.size () != n + 2 || w.dims.size () != n + 2 || y.dims.size () != n + 2 || operation.pad.size () != n ||
      operation.dilation.size () != n || post.size () != n)
    return "ranks of a convolution differ";
  if (x.dims[0] != y.dims[0] || w.dims[0] != y.dims[1] || w.dims[1] == 0 || x.dims[1] % w.dims[1] != 0)
    return "images or channels of a convolution differ";
  for (size_t i = 0; i < n; i++)
    {
      const int64_t extent = (w.dims[2 + i] - 1) * operation.dilation[i] + 1;
      if (operation.pad[i] < 0 || post[i] < 0 ||
          y.dims[2 + i] != (x.dims[2 + i] + operation.pad[i] + post[i] - extent) / operation.stride[i] + 1)
        return "the sizes of a convolution do not follow from its window";
    }
  return nullptr;
}

/* Operations come after those that write their inputs; each virtual tensor is written by one of them. */
static cudnnStatus_t
check_graph (const Descriptor *descriptor)
{
  std::map<int64_t, int> numbers;
  const FakeGraph graph = read_graph (descriptor, &numbers);
  std::vector<bool> written (graph.tensors.size (), false);
  for (size_t i = 0; i < graph.operations.size (); i++)
    {
      const FakeOperation &operation = graph.operations[i];
      const bool two = operation.type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR ||
                       operation.type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR || is_pool (operation);
      const int result = two ? 1 : 2;
      for (int k = 0; k < 4; k++)
        {
          const int number = operation.operands[k];
          if (number >= 0 && k != result && graph.tensors[(size_t) number].is_virtual && !written[(size_t) number])
            return fail (CUDNN_STATUS_BAD_PARAM, "an operation reads a virtual tensor that none before it writes");
        }
      const size_t to = (size_t) operation.operands[result];
      if (written[to] || graph.tensors[to].by_value)
        return fail (CUDNN_STATUS_BAD_PARAM, "a tensor is written twice");
      written[to] = true;
      if (const char *fault = is_pool (operation) ? find_fault_of_pool (graph, operation) : nullptr)
        return fail (CUDNN_STATUS_BAD_PARAM, fault);
      if (is_convolution (operation))
        {
          const Descriptor *from = descriptor->child (CUDNN_ATTR_OPERATIONGRAPH_OPS, (int64_t) i);
          const int names[] = { CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC };
          for (int name : names)
            if (const char *fault =
                    from->has (name) ? find_fault_of_window (graph, operation, from->child (name)) : nullptr)
              return fail (CUDNN_STATUS_BAD_PARAM, fault);
        }
    }
  return CUDNN_STATUS_SUCCESS;
}

/* As the library: attention in 16 bits only, and of heads whose size is a multiple of 8; operands and results of a
 * convolution, and of a pool, in one type, and of a convolution in one layout; of pools, no gradient of greatest
 * numbers without x and y. */
static bool
is_supported (const Descriptor *descriptor)
{
  std::map<int64_t, int> numbers;
  const FakeGraph graph = read_graph (descriptor, &numbers);
  for (size_t i = 0; i < graph.operations.size (); i++)
    {
      const FakeOperation &operation = graph.operations[i];
      const FakeTensor &a = graph.tensors[(size_t) operation.operands[0]];
      const FakeTensor &b = graph.tensors[(size_t) operation.operands[1 + (operation.operands[1] < 0)]];
      const bool product = operation.type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR;
      if (is_pool (operation) &&
          (a.type != b.type || (operation.mode == CUDNN_RESAMPLE_MAXPOOL &&
                                operation.type == CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR)))
        return false;
      if ((product || is_convolution (operation)) && (a.type != b.type || a.type == CUDNN_DATA_DOUBLE))
        return false;
      const FakeTensor &result =
          graph.tensors[(size_t) operation.operands[product || is_convolution (operation) ? 2 : 0]];
      if (is_convolution (operation) && !result.is_virtual && result.type != a.type)
        return false;
      if (is_convolution (operation) && !has_layout (graph, false) && !has_layout (graph, true))
        return false;
      if (is_convolution (operation) && result.is_virtual &&
          operation.type != CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)
        return false;
      if (product && (a.type == CUDNN_DATA_FLOAT || (!a.is_virtual && a.dims[3] % 8 != 0)))
        return false;
    }
  return true;
}

/* ---- cuDNN's functions ---- */

cudnnStatus_t
cudnnCreate (cudnnHandle_t *handle)
{
  *handle = new OrtrainFakeDnn ();
  cudaGetDevice (&(*handle)->device);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t
cudnnDestroy (cudnnHandle_t handle)
{
  if (!ortrain_fake_cuda_is_current (handle->device))
    return fail (CUDNN_STATUS_BAD_PARAM, "the handle is of another device");
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t
cudnnSetStream (cudnnHandle_t handle, cudaStream_t stream)
{
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

size_t
cudnnGetVersion (void)
{
  const char *text = getenv ("ORTRAIN_FAKE_CUDNN_VERSION");
  return text != nullptr ? strtoul (text, nullptr, 10) : 91900;
}

const char *
cudnnGetErrorString (cudnnStatus_t status)
{
  return status == CUDNN_STATUS_SUCCESS         ? "CUDNN_STATUS_SUCCESS"
         : status == CUDNN_STATUS_NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED"
                                                : "CUDNN_STATUS_BAD_PARAM";
}

void
cudnnGetLastErrorString (char *message, size_t n_bytes)
{
  snprintf (message, n_bytes, "%s", last_error.c_str ());
}

cudnnStatus_t
cudnnBackendCreateDescriptor (cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *descriptor)
{
  auto *self = new Descriptor ();
  self->type = type;
  *descriptor = self;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t
cudnnBackendDestroyDescriptor (cudnnBackendDescriptor_t descriptor)
{
  delete (Descriptor *) descriptor;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t
cudnnBackendSetAttribute (cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                          cudnnBackendAttributeType_t type, int64_t n, const void *elements)
{
  auto *self = (Descriptor *) descriptor;
  const Rule *rule = find_rule (self->type, name);
  if (self->final)
    return fail (CUDNN_STATUS_BAD_PARAM, "an attribute is set after finalize");
  if (rule == nullptr || rule->type != type || n < 1 || n > rule->most || n < rule->least || elements == nullptr)
    return fail (CUDNN_STATUS_BAD_PARAM, "attribute " + std::to_string (name) + " has no such type or count");
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
    for (int64_t i = 0; i < n; i++)
      {
        const Descriptor *child = ((Descriptor *const *) elements)[i];
        if (child == nullptr || !child->final)
          return fail (CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "a part is not final");
      }
  Attribute &attribute = self->attributes[name];
  attribute.type = type;
  attribute.n = n;
  attribute.bytes.assign ((const uint8_t *) elements, (const uint8_t *) elements + (size_t) n * get_size (type));
  return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t
give_int (int64_t value, int64_t n_wanted, int64_t *n, void *elements)
{
  *n = 1;
  if (n_wanted > 0)
    memcpy (elements, &value, sizeof value);
  return CUDNN_STATUS_SUCCESS;
}

#define N_ENGINES 3
#define FIRST_ENGINE (100 + ortrain_fake_cuda_get_choices ()) /* its number */

static void
set_graph (Descriptor *self, const Descriptor *graph)
{
  Attribute &attribute = self->attributes[CUDNN_ATTR_ENGINE_OPERATION_GRAPH];
  attribute = { CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, std::vector<uint8_t> (8) };
  memcpy (attribute.bytes.data (), &graph, 8);
}

/* Engine n has n knobs, which are set as the heuristics say: knob k to 7 n + k. */
static cudnnStatus_t
give_knobs (const Descriptor *self, int64_t n_wanted, int64_t *n, void *elements)
{
  *n = self->engine;
  for (int64_t k = 0; k < n_wanted && k < *n; k++)
    {
      Descriptor *choice = ((Descriptor **) elements)[k];
      if (choice == nullptr || choice->type != CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR)
        return fail (CUDNN_STATUS_BAD_PARAM, "knobs need descriptors");
      const int32_t type = (int32_t) k + 1;
      const int64_t value = 7 * self->engine + k;
      Attribute &of_type = choice->attributes[CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE];
      of_type = { CUDNN_TYPE_KNOB_TYPE, 1, std::vector<uint8_t> (4) };
      memcpy (of_type.bytes.data (), &type, 4);
      Attribute &of_value = choice->attributes[CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE];
      of_value = { CUDNN_TYPE_INT64, 1, std::vector<uint8_t> (8) };
      memcpy (of_value.bytes.data (), &value, 8);
      choice->final = true;
    }
  return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t
check_engine (Descriptor *self)
{
  self->engine = self->get<int64_t> (CUDNN_ATTR_ENGINE_GLOBAL_INDEX) - FIRST_ENGINE;
  return self->engine >= 0 && self->engine < N_ENGINES && is_supported (self->child (CUDNN_ATTR_ENGINE_OPERATION_GRAPH))
             ? CUDNN_STATUS_SUCCESS
             : fail (CUDNN_STATUS_NOT_SUPPORTED, "there is no such engine for the graph");
}

static cudnnStatus_t
check_config (Descriptor *self)
{
  const Descriptor *engine = self->child (CUDNN_ATTR_ENGINECFG_ENGINE);
  self->engine = engine->engine;
  set_graph (self, engine->child (CUDNN_ATTR_ENGINE_OPERATION_GRAPH));
  bool fits = self->count (CUDNN_ATTR_ENGINECFG_KNOB_CHOICES) == self->engine;
  for (int64_t k = 0; k < self->engine && fits; k++)
    {
      const Descriptor *choice = self->child (CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, k);
      fits = choice->get<int32_t> (CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE) == k + 1 &&
             choice->get<int64_t> (CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE) == 7 * self->engine + k;
    }
  return fits ? CUDNN_STATUS_SUCCESS : fail (CUDNN_STATUS_NOT_SUPPORTED, "the engine has no such knobs");
}

/* For pools in our layout, the library has an engine in its fallback only. */
static bool
is_for_fallback (const Descriptor *descriptor)
{
  std::map<int64_t, int> numbers;
  return is_pool (read_graph (descriptor, &numbers).operations[0]);
}

/* As in the library: for attention, a compiler makes the kernels of an execution plan. */
static bool
is_compiled (const Descriptor *graph)
{
  std::map<int64_t, int> numbers;
  for (const FakeOperation &operation : read_graph (graph, &numbers).operations)
    if (operation.type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)
      return true;
  return false;
}

/* Three engines; the last one counts as one of tensor cores, in 16 bits others do too. Those of a fallback are the
 * same. */
static cudnnStatus_t
give_results (const Descriptor *self, int64_t n_wanted, int64_t *n, void *elements)
{
  const Descriptor *graph = self->child (CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  const bool in_mode =
      !is_for_fallback (graph) || self->get<int> (CUDNN_ATTR_ENGINEHEUR_MODE) == CUDNN_HEUR_MODE_FALLBACK;
  *n = is_supported (graph) && in_mode ? N_ENGINES : 0;
  for (int64_t i = 0; i < n_wanted && i < *n; i++)
    {
      Descriptor *config = ((Descriptor **) elements)[i];
      if (config == nullptr || config->type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
        return fail (CUDNN_STATUS_BAD_PARAM, "results need descriptors of configurations");
      config->engine = i;
      config->final = true;
      set_graph (config, graph);
    }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t
cudnnBackendGetAttribute (cudnnBackendDescriptor_t const descriptor, cudnnBackendAttributeName_t name,
                          cudnnBackendAttributeType_t type, int64_t n_wanted, int64_t *n, void *elements)
{
  const auto *self = (const Descriptor *) descriptor;
  if (!self->final)
    return fail (CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "what is asked is not final");
  if (self->type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR && name == CUDNN_ATTR_ENGINEHEUR_RESULTS)
    return give_results (self, n_wanted, n, elements);
  if (self->type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR && name == CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE)
    return give_int (get_workspace (read_graph (self->child (CUDNN_ATTR_ENGINE_OPERATION_GRAPH)), self->engine),
                     n_wanted, n, elements);
  if (self->type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR && name == CUDNN_ATTR_ENGINECFG_ENGINE)
    {
      Descriptor *engine = *(Descriptor **) elements;
      if (engine == nullptr || engine->type != CUDNN_BACKEND_ENGINE_DESCRIPTOR)
        return fail (CUDNN_STATUS_BAD_PARAM, "an engine needs a descriptor");
      engine->engine = self->engine;
      engine->final = true;
      set_graph (engine, self->child (CUDNN_ATTR_ENGINE_OPERATION_GRAPH));
      *n = 1;
      return CUDNN_STATUS_SUCCESS;
    }
  if (self->type == CUDNN_BACKEND_ENGINE_DESCRIPTOR && name == CUDNN_ATTR_ENGINE_GLOBAL_INDEX)
    return give_int (FIRST_ENGINE + self->engine, n_wanted, n, elements);
  if (self->type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR && name == CUDNN_ATTR_ENGINECFG_KNOB_CHOICES)
    return give_knobs (self, n_wanted, n, elements);
  if (self->type == CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR && name == CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE)
    return give_int (self->get<int64_t> (name), n_wanted, n, elements);
  if (self->type == CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR && name == CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE)
    {
      *n = 1;
      *(int32_t *) elements = self->get<int32_t> (name);
      return CUDNN_STATUS_SUCCESS;
    }
  if (self->type == CUDNN_BACKEND_ENGINE_DESCRIPTOR && name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE)
    {
      *n = has_tensor_cores (read_graph (self->child (CUDNN_ATTR_ENGINE_OPERATION_GRAPH)), self->engine) ? 1 : 0;
      if (*n == 1 && n_wanted > 0)
        *(cudnnBackendNumericalNote_t *) elements = CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
      return CUDNN_STATUS_SUCCESS;
    }
  if (self->type == CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR && name == CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION)
    {
      static const char text[] = "{\"deviceName\": \"emulated on the host\"}";
      *n = sizeof text;
      if (n_wanted > 0)
        memcpy (elements, text, (size_t) std::min (n_wanted, *n));
      return CUDNN_STATUS_SUCCESS;
    }
  if (self->type == CUDNN_BACKEND_ENGINE_DESCRIPTOR && name == CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE)
    {
      *n = is_compiled (self->child (CUDNN_ATTR_ENGINE_OPERATION_GRAPH)) ? 1 : 0;
      if (*n == 1 && n_wanted > 0)
        *(cudnnBackendBehaviorNote_t *) elements = CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
      return CUDNN_STATUS_SUCCESS;
    }
  if (self->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR && name == CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION)
    {
      const std::string text = fake_cudnn_write_plan (*self->plan, cudnnGetVersion (), self->device);
      *n = (int64_t) text.size ();
      if (n_wanted > 0)
        memcpy (elements, text.data (), (size_t) std::min (n_wanted, *n));
      return CUDNN_STATUS_SUCCESS;
    }
  if (self->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR && name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)
    return give_int (get_workspace (self->plan->graph, self->plan->engine), n_wanted, n, elements);
  return fail (CUDNN_STATUS_BAD_PARAM, "attribute " + std::to_string (name) + " cannot be read");
}

static cudnnStatus_t
check_tensor (const Descriptor *self)
{
  const std::vector<int64_t> dims = self->ints (CUDNN_ATTR_TENSOR_DIMENSIONS);
  if (dims.size () != self->ints (CUDNN_ATTR_TENSOR_STRIDES).size ())
    return fail (CUDNN_STATUS_BAD_PARAM, "a tensor's dimensions and strides differ in number");
  for (int64_t dim : dims)
    if (dim < 1)
      return fail (CUDNN_STATUS_BAD_PARAM, "a tensor has an empty dimension");
  return CUDNN_STATUS_SUCCESS;
}

/* ORTRAIN_FAKE_CUDNN_REFUSE=N: the first N engines of each graph have no execution plan. */
static bool
is_refused (const Descriptor *self)
{
  const char *text = getenv ("ORTRAIN_FAKE_CUDNN_REFUSE");
  return text != nullptr && self->child (CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)->engine < atoi (text);
}

/* From a configuration, which may take a compiler; or from the text of such a plan, whose kernels are there. */
static cudnnStatus_t
make_plan (Descriptor *self)
{
  int device = 0;
  cudaGetDevice (&device);
  if (self->has (CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION))
    {
      if (!self->has (CUDNN_ATTR_EXECUTION_PLAN_HANDLE)) /* the library then reads at address 0 */
        abort ();
      const Attribute &attribute = self->attributes[CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION];
      const std::string text ((const char *) attribute.bytes.data (), attribute.bytes.size ());
      self->plan = getenv ("ORTRAIN_FAKE_CUDNN_FOREIGN") == nullptr
                       ? fake_cudnn_read_plan (text, cudnnGetVersion (), device)
                       : nullptr;
      ortrain_fake_cuda_count (self->plan != nullptr ? "dnn-restored" : "dnn-not-restored");
      return self->plan != nullptr ? CUDNN_STATUS_SUCCESS
                                   : fail (CUDNN_STATUS_BAD_PARAM, "the plan is of another version or device");
    }
  if (!self->has (CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG))
    return fail (CUDNN_STATUS_BAD_PARAM, "a plan has neither a configuration nor a text");
  if (is_refused (self))
    return fail (CUDNN_STATUS_NOT_SUPPORTED, "the engine cannot be made");
  const Descriptor *config = self->child (CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  const Descriptor *graph = config->child (CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
  self->plan = std::make_shared<FakePlan> ();
  self->plan->graph = read_graph (graph, &self->plan->numbers);
  self->plan->engine = config->engine;
  if (is_compiled (graph))
    ortrain_fake_cuda_count ("dnn-compilations");
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t
cudnnBackendFinalize (cudnnBackendDescriptor_t descriptor)
{
  auto *self = (Descriptor *) descriptor;
  for (const Rule &rule : rules)
    if (rule.descriptor == self->type && rule.least > 0 && !self->has (rule.name))
      return fail (CUDNN_STATUS_BAD_PARAM, "attribute " + std::to_string (rule.name) + " is not set");
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  if (self->type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)
    ortrain_fake_cuda_count ("dnn-heuristics");
  if (self->type == CUDNN_BACKEND_TENSOR_DESCRIPTOR)
    status = check_tensor (self);
  else if (self->type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)
    status = check_graph (self);
  else if (self->type == CUDNN_BACKEND_ENGINE_DESCRIPTOR)
    status = check_engine (self);
  else if (self->type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
    status = check_config (self);
  else if (self->type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)
    status = is_supported (self->child (CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH))
                 ? CUDNN_STATUS_SUCCESS
                 : fail (CUDNN_STATUS_NOT_SUPPORTED, "no engine computes the graph");
  else if (self->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
    status = make_plan (self);
  else if (self->type == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR &&
           self->count (CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS) != self->count (CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS))
    status = fail (CUDNN_STATUS_BAD_PARAM, "addresses and tensors differ in number");
  cudaGetDevice (&self->device);
  self->final = status == CUDNN_STATUS_SUCCESS;
  return status;
}

static void
run_graph (void *data)
{
  FakeGraph *graph = *(FakeGraph **) data;
  fake_cudnn_compute (graph);
}

/* Graphs that were executed stay, one for each set of addresses: a captured one runs again. */
static FakeGraph *
keep (const FakePlan *plan, FakeGraph &&graph)
{
  static std::mutex lock;
  static std::map<std::vector<const void *>, std::unique_ptr<FakeGraph> > kept;
  std::vector<const void *> key = { plan, graph.workspace };
  for (const FakeTensor &tensor : graph.tensors)
    key.push_back (tensor.address);
  std::lock_guard<std::mutex> guard (lock);
  std::unique_ptr<FakeGraph> &place = kept[key];
  if (place == nullptr)
    place = std::make_unique<FakeGraph> (std::move (graph));
  return place.get ();
}

cudnnStatus_t
cudnnBackendExecute (cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack)
{
  const auto *self = (const Descriptor *) plan, *places = (const Descriptor *) pack;
  if (handle == nullptr || handle->stream == nullptr || !self->final || !places->final)
    return fail (CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "the plan, or its addresses, are not final");
  if (!ortrain_fake_cuda_is_current (handle->device) || !ortrain_fake_cuda_is_current (self->device))
    return fail (CUDNN_STATUS_BAD_PARAM, "the handle, or the plan, is of another device");
  const std::map<int64_t, int> &numbers = self->plan->numbers;
  FakeGraph graph = self->plan->graph;
  std::vector<bool> given (graph.tensors.size (), false);
  for (int64_t i = 0; i < places->count (CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS); i++)
    {
      const auto found = numbers.find (places->get<int64_t> (CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, 0, i));
      if (found == numbers.end ())
        return fail (CUDNN_STATUS_BAD_PARAM, "an address belongs to no tensor");
      FakeTensor &tensor = graph.tensors[(size_t) found->second];
      tensor.address = places->get<void *> (CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, nullptr, i);
      if (tensor.address == nullptr || (!tensor.by_value && ((uintptr_t) tensor.address & 15) != 0))
        return fail (CUDNN_STATUS_BAD_PARAM, "an address is missing or not aligned");
      if (tensor.by_value) /* read now: it is the host's */
        tensor.value = tensor.type == CUDNN_DATA_INT32 ? *(const int32_t *) tensor.address
                                                       : (double) *(const float *) tensor.address;
      given[(size_t) found->second] = true;
    }
  for (size_t i = 0; i < graph.tensors.size (); i++)
    if (given[i] == graph.tensors[i].is_virtual)
      return fail (CUDNN_STATUS_BAD_PARAM, "a tensor has no address");
  graph.workspace = places->get<void *> (CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  graph.workspace_bytes = (size_t) get_workspace (graph, self->plan->engine);
  if (is_convolution (graph.operations[0]))
    ortrain_fake_cuda_count (has_layout (graph, true)                    ? "dnn-channels-last"
                             : copies_layout (graph, self->plan->engine) ? "dnn-layout-copies"
                                                                         : "dnn-channels-second");
  if (graph.workspace == nullptr)
    return fail (CUDNN_STATUS_BAD_PARAM, "there is no workspace");
  FakeGraph *kept = keep (self->plan.get (), std::move (graph));
  return ortrain_fake_cuda_enqueue (handle->stream, "dnn", run_graph, &kept, sizeof kept) == cudaSuccess
             ? CUDNN_STATUS_SUCCESS
             : CUDNN_STATUS_EXECUTION_FAILED;
}
