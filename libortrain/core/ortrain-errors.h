/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-macros.h"

G_BEGIN_DECLS

#define ORTRAIN_TENSOR_ERROR (ortrain_tensor_error_quark ())
#define ORTRAIN_MODEL_ERROR (ortrain_model_error_quark ())
#define ORTRAIN_GRAPH_ERROR (ortrain_graph_error_quark ())
#define ORTRAIN_PLAN_ERROR (ortrain_plan_error_quark ())
#define ORTRAIN_DEVICE_ERROR (ortrain_device_error_quark ())
#define ORTRAIN_SESSION_ERROR (ortrain_session_error_quark ())
#define ORTRAIN_DATA_ERROR (ortrain_data_error_quark ())
#define ORTRAIN_CHECKPOINT_ERROR (ortrain_checkpoint_error_quark ())

/**
 * OrtrainTensorError:
 * @ORTRAIN_TENSOR_ERROR_DTYPE: the element type is not the expected one
 * @ORTRAIN_TENSOR_ERROR_SHAPE: the shape is not the expected one, or too large
 * @ORTRAIN_TENSOR_ERROR_LAYOUT: the memory is misaligned or not contiguous
 * @ORTRAIN_TENSOR_ERROR_RELEASED: the storage was released
 * @ORTRAIN_TENSOR_ERROR_NO_MEMORY: the memory cannot be allocated
 * @ORTRAIN_TENSOR_ERROR_INVALID: a file or a foreign tensor is malformed
 * @ORTRAIN_TENSOR_ERROR_CHANGED: a file was changed while its contents were in use
 * @ORTRAIN_TENSOR_ERROR_DEVICE: the memory is on another device than the expected one
 *
 * Errors of tensors. More codes may be added.
 */
typedef enum
{
  ORTRAIN_TENSOR_ERROR_DTYPE,
  ORTRAIN_TENSOR_ERROR_SHAPE,
  ORTRAIN_TENSOR_ERROR_LAYOUT,
  ORTRAIN_TENSOR_ERROR_RELEASED,
  ORTRAIN_TENSOR_ERROR_NO_MEMORY,
  ORTRAIN_TENSOR_ERROR_INVALID,
  ORTRAIN_TENSOR_ERROR_CHANGED,
  ORTRAIN_TENSOR_ERROR_DEVICE,
} OrtrainTensorError;

/**
 * OrtrainModelError:
 * @ORTRAIN_MODEL_ERROR_INVALID: the file is malformed or truncated
 * @ORTRAIN_MODEL_ERROR_LIMIT: the file exceeds a limit
 * @ORTRAIN_MODEL_ERROR_VERSION: the IR version or operator set is not supported
 * @ORTRAIN_MODEL_ERROR_EXTERNAL_DATA: external data is missing, too small, or may not be opened
 * @ORTRAIN_MODEL_ERROR_CYCLE: the graph has a cycle
 * @ORTRAIN_MODEL_ERROR_UNSUPPORTED: the model needs a feature that the library does not have
 * @ORTRAIN_MODEL_ERROR_WRITE: the model could not be written
 *
 * Errors of models. More codes may be added.
 */
typedef enum
{
  ORTRAIN_MODEL_ERROR_INVALID,
  ORTRAIN_MODEL_ERROR_LIMIT,
  ORTRAIN_MODEL_ERROR_VERSION,
  ORTRAIN_MODEL_ERROR_EXTERNAL_DATA,
  ORTRAIN_MODEL_ERROR_CYCLE,
  ORTRAIN_MODEL_ERROR_UNSUPPORTED,
  ORTRAIN_MODEL_ERROR_WRITE,
} OrtrainModelError;

/**
 * OrtrainGraphError:
 * @ORTRAIN_GRAPH_ERROR_UNKNOWN_OPERATOR: no operator of that name and version is known
 * @ORTRAIN_GRAPH_ERROR_ARITY: an operator has too few or too many inputs or outputs
 * @ORTRAIN_GRAPH_ERROR_ATTRIBUTE: an attribute is missing or wrong
 * @ORTRAIN_GRAPH_ERROR_DTYPE: an operand has the wrong element type
 * @ORTRAIN_GRAPH_ERROR_SHAPE: the shapes of the operands do not match
 * @ORTRAIN_GRAPH_ERROR_NAME: a name is missing, unknown or used already
 * @ORTRAIN_GRAPH_ERROR_CYCLE: the change would create a cycle
 * @ORTRAIN_GRAPH_ERROR_NO_GRADIENT: an operator between the parameters and the loss has no gradient
 * @ORTRAIN_GRAPH_ERROR_DATA_DEPENDENT: a shape depends on computed data
 * @ORTRAIN_GRAPH_ERROR_DECLARATION: the shape that the file declares for a value is not the one that is computed
 *
 * Errors of graphs. More codes may be added.
 */
typedef enum
{
  ORTRAIN_GRAPH_ERROR_UNKNOWN_OPERATOR,
  ORTRAIN_GRAPH_ERROR_ARITY,
  ORTRAIN_GRAPH_ERROR_ATTRIBUTE,
  ORTRAIN_GRAPH_ERROR_DTYPE,
  ORTRAIN_GRAPH_ERROR_SHAPE,
  ORTRAIN_GRAPH_ERROR_NAME,
  ORTRAIN_GRAPH_ERROR_CYCLE,
  ORTRAIN_GRAPH_ERROR_NO_GRADIENT,
  ORTRAIN_GRAPH_ERROR_DATA_DEPENDENT,
  ORTRAIN_GRAPH_ERROR_DECLARATION,
} OrtrainGraphError;

/**
 * OrtrainPlanError:
 * @ORTRAIN_PLAN_ERROR_NO_KERNEL: an operator has no kernel for its types
 * @ORTRAIN_PLAN_ERROR_INVALID: the verifier rejected the plan, or a file of buffers is malformed
 * @ORTRAIN_PLAN_ERROR_BUDGET: the memory budget cannot be met
 *
 * Errors of memory planning. More codes may be added.
 */
typedef enum
{
  ORTRAIN_PLAN_ERROR_NO_KERNEL,
  ORTRAIN_PLAN_ERROR_INVALID,
  ORTRAIN_PLAN_ERROR_BUDGET,
} OrtrainPlanError;

/**
 * OrtrainDeviceError:
 * @ORTRAIN_DEVICE_ERROR_UNAVAILABLE: the device or its provider is not available
 * @ORTRAIN_DEVICE_ERROR_NO_MEMORY: the device has too little memory
 * @ORTRAIN_DEVICE_ERROR_FAILED: a call of its library, or a kernel, failed
 *
 * Errors of devices. More codes may be added.
 */
typedef enum
{
  ORTRAIN_DEVICE_ERROR_UNAVAILABLE,
  ORTRAIN_DEVICE_ERROR_NO_MEMORY,
  ORTRAIN_DEVICE_ERROR_FAILED,
} OrtrainDeviceError;

/**
 * OrtrainSessionError:
 * @ORTRAIN_SESSION_ERROR_NOT_INITIALIZED: the object was not created by its constructor
 * @ORTRAIN_SESSION_ERROR_FEED: an input is missing, unknown, or of the wrong type or shape
 * @ORTRAIN_SESSION_ERROR_INDEX: an index or a label is out of range
 * @ORTRAIN_SESSION_ERROR_STATE: the call is not possible now
 * @ORTRAIN_SESSION_ERROR_BUSY: another call is running
 * @ORTRAIN_SESSION_ERROR_NOT_TRAINABLE: the model cannot be trained with these options
 * @ORTRAIN_SESSION_ERROR_OPTION: an option has a wrong value
 * @ORTRAIN_SESSION_ERROR_NOT_FINITE: a loss, a gradient or a parameter is not finite, and the options make that an
 *   error
 *
 * Errors of sessions. More codes may be added.
 */
typedef enum
{
  ORTRAIN_SESSION_ERROR_NOT_INITIALIZED,
  ORTRAIN_SESSION_ERROR_FEED,
  ORTRAIN_SESSION_ERROR_INDEX,
  ORTRAIN_SESSION_ERROR_STATE,
  ORTRAIN_SESSION_ERROR_BUSY,
  ORTRAIN_SESSION_ERROR_NOT_TRAINABLE,
  ORTRAIN_SESSION_ERROR_OPTION,
  ORTRAIN_SESSION_ERROR_NOT_FINITE,
} OrtrainSessionError;

/**
 * OrtrainDataError:
 * @ORTRAIN_DATA_ERROR_INVALID: a data file or a state is malformed
 * @ORTRAIN_DATA_ERROR_MISMATCH: arrays, names or items do not match
 * @ORTRAIN_DATA_ERROR_EMPTY: there are no items, or not as many as are needed
 *
 * Errors of datasets. More codes may be added.
 */
typedef enum
{
  ORTRAIN_DATA_ERROR_INVALID,
  ORTRAIN_DATA_ERROR_MISMATCH,
  ORTRAIN_DATA_ERROR_EMPTY,
} OrtrainDataError;

/**
 * OrtrainCheckpointError:
 * @ORTRAIN_CHECKPOINT_ERROR_NOT_FOUND: there is no complete checkpoint
 * @ORTRAIN_CHECKPOINT_ERROR_INVALID: the checkpoint is malformed
 * @ORTRAIN_CHECKPOINT_ERROR_MISMATCH: the checkpoint belongs to another model or optimizer
 * @ORTRAIN_CHECKPOINT_ERROR_VERSION: the checkpoint was written by a newer version
 *
 * Errors of checkpoints. More codes may be added.
 */
typedef enum
{
  ORTRAIN_CHECKPOINT_ERROR_NOT_FOUND,
  ORTRAIN_CHECKPOINT_ERROR_INVALID,
  ORTRAIN_CHECKPOINT_ERROR_MISMATCH,
  ORTRAIN_CHECKPOINT_ERROR_VERSION,
} OrtrainCheckpointError;

ORTRAIN_AVAILABLE_IN_ALL
GQuark ortrain_tensor_error_quark (void);
ORTRAIN_AVAILABLE_IN_ALL
GQuark ortrain_model_error_quark (void);
ORTRAIN_AVAILABLE_IN_ALL
GQuark ortrain_graph_error_quark (void);
ORTRAIN_AVAILABLE_IN_ALL
GQuark ortrain_plan_error_quark (void);
ORTRAIN_AVAILABLE_IN_ALL
GQuark ortrain_device_error_quark (void);
ORTRAIN_AVAILABLE_IN_ALL
GQuark ortrain_session_error_quark (void);
ORTRAIN_AVAILABLE_IN_ALL
GQuark ortrain_data_error_quark (void);
ORTRAIN_AVAILABLE_IN_ALL
GQuark ortrain_checkpoint_error_quark (void);

G_END_DECLS
