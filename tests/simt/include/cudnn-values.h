/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Names and values of cuDNN 9 that the provider uses: tests/simt/include/cudnn.h makes its enumerations of them, and
 * test-cudnn-values.c holds them against the library's own headers. */

#define ORTRAIN_FAKE_CUDNN_DATA_TYPES(X)                                                                               \
  X (CUDNN_DATA_FLOAT, 0)                                                                                              \
  X (CUDNN_DATA_DOUBLE, 1)                                                                                             \
  X (CUDNN_DATA_HALF, 2)                                                                                               \
  X (CUDNN_DATA_INT8, 3)                                                                                               \
  X (CUDNN_DATA_INT32, 4)                                                                                              \
  X (CUDNN_DATA_BFLOAT16, 9)                                                                                           \
  X (CUDNN_DATA_INT64, 10)                                                                                             \
  X (CUDNN_DATA_BOOLEAN, 11)

#define ORTRAIN_FAKE_CUDNN_REDUCTIONS(X)                                                                               \
  X (CUDNN_REDUCE_TENSOR_ADD, 0)                                                                                       \
  X (CUDNN_REDUCE_TENSOR_MAX, 3)

#define ORTRAIN_FAKE_CUDNN_CONVOLUTION_MODES(X)                                                                        \
  X (CUDNN_CONVOLUTION, 0)                                                                                             \
  X (CUDNN_CROSS_CORRELATION, 1)

#define ORTRAIN_FAKE_CUDNN_HEUR_MODES(X)                                                                               \
  X (CUDNN_HEUR_MODE_INSTANT, 0)                                                                                       \
  X (CUDNN_HEUR_MODE_B, 1)                                                                                             \
  X (CUDNN_HEUR_MODE_FALLBACK, 2)                                                                                      \
  X (CUDNN_HEUR_MODE_A, 3)

#define ORTRAIN_FAKE_CUDNN_POINTWISE_MODES(X)                                                                          \
  X (CUDNN_POINTWISE_ADD, 0)                                                                                           \
  X (CUDNN_POINTWISE_DIV, 6)                                                                                           \
  X (CUDNN_POINTWISE_MUL, 1)                                                                                           \
  X (CUDNN_POINTWISE_SUB, 9)                                                                                           \
  X (CUDNN_POINTWISE_EXP, 13)                                                                                          \
  X (CUDNN_POINTWISE_LOG, 15)                                                                                          \
  X (CUDNN_POINTWISE_IDENTITY, 21)                                                                                     \
  X (CUDNN_POINTWISE_CMP_GE, 303)                                                                                      \
  X (CUDNN_POINTWISE_CMP_LT, 304)                                                                                      \
  X (CUDNN_POINTWISE_LOGICAL_AND, 400)                                                                                 \
  X (CUDNN_POINTWISE_GEN_INDEX, 501)                                                                                   \
  X (CUDNN_POINTWISE_BINARY_SELECT, 601)

#define ORTRAIN_FAKE_CUDNN_RESAMPLE_MODES(X)                                                                           \
  X (CUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING, 2)                                                                        \
  X (CUDNN_RESAMPLE_MAXPOOL, 3)                                                                                        \
  X (CUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING, 4)

#define ORTRAIN_FAKE_CUDNN_NAN_MODES(X)                                                                                \
  X (CUDNN_NOT_PROPAGATE_NAN, 0)                                                                                       \
  X (CUDNN_PROPAGATE_NAN, 1)

#define ORTRAIN_FAKE_CUDNN_PADDING_MODES(X)                                                                            \
  X (CUDNN_ZERO_PAD, 0)                                                                                                \
  X (CUDNN_NEG_INF_PAD, 1)

#define ORTRAIN_FAKE_CUDNN_NORM_MODES(X) X (CUDNN_BATCH_NORM, 2)

#define ORTRAIN_FAKE_CUDNN_NORM_PHASES(X) X (CUDNN_NORM_FWD_TRAINING, 1)

#define ORTRAIN_FAKE_CUDNN_BEHAVIOR_NOTES(X)                                                                           \
  X (CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION, 0)                                                                       \
  X (CUDNN_BEHAVIOR_NOTE_TYPE_COUNT, 5)

#define ORTRAIN_FAKE_CUDNN_NUMERICAL_NOTES(X)                                                                          \
  X (CUDNN_NUMERICAL_NOTE_TENSOR_CORE, 0)                                                                              \
  X (CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS, 1)                                                                      \
  X (CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION, 2)                                                              \
  X (CUDNN_NUMERICAL_NOTE_FFT, 3)                                                                                      \
  X (CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, 4)                                                                         \
  X (CUDNN_NUMERICAL_NOTE_WINOGRAD, 5)                                                                                 \
  X (CUDNN_NUMERICAL_NOTE_TYPE_COUNT, 10)

#define ORTRAIN_FAKE_CUDNN_DESCRIPTOR_TYPES(X)                                                                         \
  X (CUDNN_BACKEND_POINTWISE_DESCRIPTOR, 0)                                                                            \
  X (CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, 1)                                                                          \
  X (CUDNN_BACKEND_ENGINE_DESCRIPTOR, 2)                                                                               \
  X (CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, 3)                                                                            \
  X (CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, 4)                                                                           \
  X (CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, 5)                                                                       \
  X (CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, 7)                                                                          \
  X (CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, 10)                                                       \
  X (CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, 11)                                               \
  X (CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, 12)                                                 \
  X (CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, 13)                                                                 \
  X (CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, 15)                                                                      \
  X (CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, 16)                                                                        \
  X (CUDNN_BACKEND_TENSOR_DESCRIPTOR, 17)                                                                              \
  X (CUDNN_BACKEND_MATMUL_DESCRIPTOR, 18)                                                                              \
  X (CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, 19)                                                                    \
  X (CUDNN_BACKEND_REDUCTION_DESCRIPTOR, 21)                                                                           \
  X (CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, 22)                                                                 \
  X (CUDNN_BACKEND_RESAMPLE_DESCRIPTOR, 24)                                                                            \
  X (CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR, 25)                                                              \
  X (CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR, 26)                                                              \
  X (CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR, 29)                                                              \
  X (CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR, 30)                                                             \
  X (CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, 31)                                                                   \
  X (CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, 38)

#define ORTRAIN_FAKE_CUDNN_ATTRIBUTE_TYPES(X)                                                                          \
  X (CUDNN_TYPE_HANDLE, 0)                                                                                             \
  X (CUDNN_TYPE_DATA_TYPE, 1)                                                                                          \
  X (CUDNN_TYPE_BOOLEAN, 2)                                                                                            \
  X (CUDNN_TYPE_INT64, 3)                                                                                              \
  X (CUDNN_TYPE_FLOAT, 4)                                                                                              \
  X (CUDNN_TYPE_DOUBLE, 5)                                                                                             \
  X (CUDNN_TYPE_VOID_PTR, 6)                                                                                           \
  X (CUDNN_TYPE_CONVOLUTION_MODE, 7)                                                                                   \
  X (CUDNN_TYPE_HEUR_MODE, 8)                                                                                          \
  X (CUDNN_TYPE_KNOB_TYPE, 9)                                                                                          \
  X (CUDNN_TYPE_NAN_PROPOGATION, 10)                                                                                   \
  X (CUDNN_TYPE_BEHAVIOR_NOTE, 19)                                                                                     \
  X (CUDNN_TYPE_NUMERICAL_NOTE, 11)                                                                                    \
  X (CUDNN_TYPE_POINTWISE_MODE, 14)                                                                                    \
  X (CUDNN_TYPE_BACKEND_DESCRIPTOR, 15)                                                                                \
  X (CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 18)                                                                           \
  X (CUDNN_TYPE_RESAMPLE_MODE, 21)                                                                                     \
  X (CUDNN_TYPE_PADDING_MODE, 22)                                                                                      \
  X (CUDNN_TYPE_CHAR, 24)                                                                                              \
  X (CUDNN_TYPE_NORM_MODE, 27)                                                                                         \
  X (CUDNN_TYPE_NORM_FWD_PHASE, 28)

#define ORTRAIN_FAKE_CUDNN_ATTRIBUTE_NAMES(X)                                                                          \
  X (CUDNN_ATTR_POINTWISE_MODE, 0)                                                                                     \
  X (CUDNN_ATTR_POINTWISE_MATH_PREC, 1)                                                                                \
  X (CUDNN_ATTR_POINTWISE_AXIS, 9)                                                                                     \
  X (CUDNN_ATTR_CONVOLUTION_COMP_TYPE, 100)                                                                            \
  X (CUDNN_ATTR_CONVOLUTION_CONV_MODE, 101)                                                                            \
  X (CUDNN_ATTR_CONVOLUTION_DILATIONS, 102)                                                                            \
  X (CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 103)                                                                       \
  X (CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 104)                                                                        \
  X (CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 105)                                                                         \
  X (CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 106)                                                                         \
  X (CUDNN_ATTR_ENGINEHEUR_MODE, 200)                                                                                  \
  X (CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, 201)                                                                       \
  X (CUDNN_ATTR_ENGINEHEUR_RESULTS, 202)                                                                               \
  X (CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, 204)                                                                            \
  X (CUDNN_ATTR_ENGINECFG_ENGINE, 300)                                                                                 \
  X (CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, 302)                                                                           \
  X (CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, 303)                                                                         \
  X (CUDNN_ATTR_EXECUTION_PLAN_HANDLE, 400)                                                                            \
  X (CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, 401)                                                                     \
  X (CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, 405)                                                               \
  X (CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, 407)                                                                        \
  X (CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, 402)                                                                    \
  X (CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 700)                                                              \
  X (CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 701)                                                               \
  X (CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, 702)                                                          \
  X (CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, 703)                                                                  \
  X (CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, 704)                                                                  \
  X (CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, 705)                                                                  \
  X (CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, 706)                                                             \
  X (CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, 707)                                                              \
  X (CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, 708)                                                         \
  X (CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, 709)                                                                 \
  X (CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, 710)                                                                \
  X (CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, 711)                                                                \
  X (CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, 712)                                                           \
  X (CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, 713)                                                            \
  X (CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, 714)                                                       \
  X (CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, 715)                                                              \
  X (CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, 716)                                                               \
  X (CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, 717)                                                              \
  X (CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, 600)                                                                            \
  X (CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, 601)                                                                           \
  X (CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, 750)                                                                \
  X (CUDNN_ATTR_OPERATION_POINTWISE_XDESC, 751)                                                                        \
  X (CUDNN_ATTR_OPERATION_POINTWISE_BDESC, 752)                                                                        \
  X (CUDNN_ATTR_OPERATION_POINTWISE_YDESC, 753)                                                                        \
  X (CUDNN_ATTR_OPERATION_POINTWISE_TDESC, 758)                                                                        \
  X (CUDNN_ATTR_OPERATIONGRAPH_HANDLE, 800)                                                                            \
  X (CUDNN_ATTR_OPERATIONGRAPH_OPS, 801)                                                                               \
  X (CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 900)                                                                            \
  X (CUDNN_ATTR_TENSOR_DATA_TYPE, 901)                                                                                 \
  X (CUDNN_ATTR_TENSOR_DIMENSIONS, 902)                                                                                \
  X (CUDNN_ATTR_TENSOR_STRIDES, 903)                                                                                   \
  X (CUDNN_ATTR_TENSOR_UNIQUE_ID, 906)                                                                                 \
  X (CUDNN_ATTR_TENSOR_IS_VIRTUAL, 907)                                                                                \
  X (CUDNN_ATTR_TENSOR_IS_BY_VALUE, 908)                                                                               \
  X (CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, 1000)                                                                         \
  X (CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, 1001)                                                                      \
  X (CUDNN_ATTR_VARIANT_PACK_WORKSPACE, 1003)                                                                          \
  X (CUDNN_ATTR_ENGINE_OPERATION_GRAPH, 1300)                                                                          \
  X (CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 1301)                                                                             \
  X (CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, 1305)                                                                            \
  X (CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, 1303)                                                                           \
  X (CUDNN_ATTR_ENGINE_DEVICEPROP, 1307)                                                                               \
  X (CUDNN_ATTR_MATMUL_COMP_TYPE, 1500)                                                                                \
  X (CUDNN_ATTR_OPERATION_MATMUL_ADESC, 1520)                                                                          \
  X (CUDNN_ATTR_OPERATION_MATMUL_BDESC, 1521)                                                                          \
  X (CUDNN_ATTR_OPERATION_MATMUL_CDESC, 1522)                                                                          \
  X (CUDNN_ATTR_OPERATION_MATMUL_DESC, 1523)                                                                           \
  X (CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, 1525)                                                           \
  X (CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, 1526)                                                           \
  X (CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, 1527)                                                           \
  X (CUDNN_ATTR_REDUCTION_OPERATOR, 1600)                                                                              \
  X (CUDNN_ATTR_REDUCTION_COMP_TYPE, 1601)                                                                             \
  X (CUDNN_ATTR_OPERATION_REDUCTION_XDESC, 1610)                                                                       \
  X (CUDNN_ATTR_OPERATION_REDUCTION_YDESC, 1611)                                                                       \
  X (CUDNN_ATTR_OPERATION_REDUCTION_DESC, 1612)                                                                        \
  X (CUDNN_ATTR_RESAMPLE_MODE, 1700)                                                                                   \
  X (CUDNN_ATTR_RESAMPLE_COMP_TYPE, 1701)                                                                              \
  X (CUDNN_ATTR_RESAMPLE_SPATIAL_DIMS, 1702)                                                                           \
  X (CUDNN_ATTR_RESAMPLE_POST_PADDINGS, 1703)                                                                          \
  X (CUDNN_ATTR_RESAMPLE_PRE_PADDINGS, 1704)                                                                           \
  X (CUDNN_ATTR_RESAMPLE_STRIDES, 1705)                                                                                \
  X (CUDNN_ATTR_RESAMPLE_WINDOW_DIMS, 1706)                                                                            \
  X (CUDNN_ATTR_RESAMPLE_NAN_PROPAGATION, 1707)                                                                        \
  X (CUDNN_ATTR_RESAMPLE_PADDING_MODE, 1708)                                                                           \
  X (CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC, 1710)                                                                    \
  X (CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC, 1711)                                                                    \
  X (CUDNN_ATTR_OPERATION_RESAMPLE_FWD_IDXDESC, 1712)                                                                  \
  X (CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC, 1716)                                                                     \
  X (CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC, 1720)                                                                   \
  X (CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC, 1721)                                                                   \
  X (CUDNN_ATTR_OPERATION_RESAMPLE_BWD_IDXDESC, 1722)                                                                  \
  X (CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DESC, 1725)                                                                     \
  X (CUDNN_ATTR_OPERATION_RESAMPLE_BWD_XDESC, 1726)                                                                    \
  X (CUDNN_ATTR_OPERATION_RESAMPLE_BWD_YDESC, 1727)                                                                    \
  X (CUDNN_ATTR_OPERATION_NORM_FWD_MODE, 2000)                                                                         \
  X (CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, 2001)                                                                        \
  X (CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, 2002)                                                                        \
  X (CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, 2003)                                                                    \
  X (CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, 2004)                                                            \
  X (CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, 2005)                                                                   \
  X (CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, 2006)                                                                    \
  X (CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, 2007)                                                                 \
  X (CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, 2013)                                                                        \
  X (CUDNN_ATTR_OPERATION_NORM_BWD_MODE, 2100)                                                                         \
  X (CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, 2101)                                                                        \
  X (CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC, 2102)                                                                    \
  X (CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, 2103)                                                            \
  X (CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC, 2104)                                                                       \
  X (CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, 2105)                                                                   \
  X (CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, 2107)                                                                  \
  X (CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, 2108)                                                                   \
  X (CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, 2109)                                                                       \
  X (CUDNN_ATTR_OPERATION_RESHAPE_XDESC, 2200)                                                                         \
  X (CUDNN_ATTR_OPERATION_RESHAPE_YDESC, 2201)                                                                         \
  X (CUDNN_ATTR_DEVICEPROP_DEVICE_ID, 2700)                                                                            \
  X (CUDNN_ATTR_DEVICEPROP_HANDLE, 2701)                                                                               \
  X (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, 2702)

#define ORTRAIN_FAKE_CUDNN_STATUSES(X)                                                                                 \
  X (CUDNN_STATUS_SUCCESS, 0)                                                                                          \
  X (CUDNN_STATUS_NOT_INITIALIZED, 1001)                                                                               \
  X (CUDNN_STATUS_BAD_PARAM, 2000)                                                                                     \
  X (CUDNN_STATUS_BAD_PARAM_NULL_POINTER, 2002)                                                                        \
  X (CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, 2004)                                                                       \
  X (CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, 2010)                                                                      \
  X (CUDNN_STATUS_NOT_SUPPORTED, 3000)                                                                                 \
  X (CUDNN_STATUS_INTERNAL_ERROR, 4000)                                                                                \
  X (CUDNN_STATUS_EXECUTION_FAILED, 5000)
