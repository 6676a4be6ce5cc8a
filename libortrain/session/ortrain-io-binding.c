/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "session/ortrain-io-binding-private.h"

#include "core/ortrain-errors.h"
#include "core/ortrain-text-private.h"
#include "runtime/ortrain-bound-outputs-private.h"

/**
 * OrtrainIoBinding:
 *
 * Inputs and outputs of an inference session that keep their memory from run to run: the session reads bound inputs and
 * writes bound outputs in place, and a run allocates nothing. [method@InferenceSession.bind] creates it.
 *
 * ```python
 * session = Ortrain.InferenceSession(Ortrain.Model("model.onnx"))
 * logits = np.empty((8, 3), np.float32)
 * binding = session.bind()
 * binding.bind_input("x", Ortrain.Tensor(x))
 * binding.bind_output("logits", Ortrain.Tensor(logits))
 * for _ in range(3):
 *     x += 1                                  # the next run reads the new contents
 *     session.run_with_binding(binding)
 *     print(logits[0])
 * ```
 *
 * Bound tensors are not copied. Each output needs memory of its own, apart from other outputs and from weights. It may
 * be that of an input, or overlap it: then the run reads the input as it was, writes the output to memory that the
 * session keeps for it, and copies it after the last read. So a decoder may overwrite the cache that it
 * has read:
 *
 * ```python
 * decoder = Ortrain.InferenceSession(Ortrain.Model("decoder.onnx"))
 * cache = np.zeros((1, 2, 4), np.float32)
 * binding = decoder.bind()
 * binding.bind_input("token", np.array([[1.0, 2.0, 3.0, 4.0]], np.float32))
 * binding.bind_input("past", cache)
 * binding.bind_output("present", cache)       # the same memory
 * for _ in range(3):
 *     decoder.run_with_binding(binding)
 * ```
 *
 * One thread at a time may use a binding.
 */
struct _OrtrainIoBinding
{
  GObject parent_instance;

  OrtrainTensorDict *inputs;
  OrtrainTensorDict *bound;   /* outputs that the caller has bound */
  OrtrainTensorDict *results; /* of the last run, bound ones included; NULL: `bound` holds all of them */
  gboolean has_run;
  OrtrainModel *checked; /* the model against whose memory `bound`, as it is now, was checked */
};

G_DEFINE_FINAL_TYPE (OrtrainIoBinding, ortrain_io_binding, G_TYPE_OBJECT)

static void
ortrain_io_binding_dispose (GObject *object)
{
  OrtrainIoBinding *self = ORTRAIN_IO_BINDING (object);
  ortrain_io_binding_clear_inputs (self);
  ortrain_io_binding_clear_outputs (self);
  G_OBJECT_CLASS (ortrain_io_binding_parent_class)->dispose (object);
}

static void
ortrain_io_binding_finalize (GObject *object)
{
  OrtrainIoBinding *self = ORTRAIN_IO_BINDING (object);
  g_clear_object (&self->inputs);
  g_signal_handlers_disconnect_by_data (self->bound, self);
  g_clear_object (&self->bound);
  g_clear_weak_pointer (&self->checked);
  g_clear_object (&self->results);
  G_OBJECT_CLASS (ortrain_io_binding_parent_class)->finalize (object);
}

static void
ortrain_io_binding_class_init (OrtrainIoBindingClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  object_class->dispose = ortrain_io_binding_dispose;
  object_class->finalize = ortrain_io_binding_finalize;
}

/* The dict is handed out, too. */
static void
forget_check (OrtrainIoBinding *self)
{
  g_clear_weak_pointer (&self->checked);
}

static void
ortrain_io_binding_init (OrtrainIoBinding *self)
{
  self->inputs = ortrain_tensor_dict_new ();
  self->bound = ortrain_tensor_dict_new ();
  g_signal_connect_swapped (self->bound, "items-changed", G_CALLBACK (forget_check), self);
}

OrtrainIoBinding *
ortrain_io_binding_new (void)
{
  return g_object_new (ORTRAIN_TYPE_IO_BINDING, NULL);
}

OrtrainTensorDict *
ortrain_io_binding_peek_bound (OrtrainIoBinding *self)
{
  return self->bound;
}

gboolean
ortrain_io_binding_check (OrtrainIoBinding *self, OrtrainModel *model, GError **error)
{
  if (self->checked == model)
    return TRUE;
  if (!ortrain_bound_outputs_check (self->bound, model, error))
    return FALSE;
  g_set_weak_pointer (&self->checked, model);
  return TRUE;
}

void
ortrain_io_binding_set_results (OrtrainIoBinding *self, OrtrainTensorDict *results)
{
  g_set_object (&self->results, results);
  self->has_run = TRUE;
}

/**
 * ortrain_io_binding_bind_input:
 * @self: a binding
 * @name: the name of an input of the model
 * @tensor: the tensor that each run reads
 *
 * Binds an input: each run reads the contents that the tensor then has. Its type and shape are checked by the run.
 */
void
ortrain_io_binding_bind_input (OrtrainIoBinding *self, const char *name, OrtrainTensor *tensor)
{
  g_return_if_fail (ORTRAIN_IS_IO_BINDING (self));
  g_return_if_fail (name != NULL);
  g_return_if_fail (ORTRAIN_IS_TENSOR (tensor));

  ortrain_tensor_dict_set (self->inputs, name, tensor);
}

/**
 * ortrain_io_binding_bind_output:
 * @self: a binding
 * @name: the name of an output of the model
 * @tensor: (nullable): the tensor that each run writes, or %NULL to get a new tensor from each
 *
 * Binds an output: each run writes the tensor. Its type and shape must be those of the output for the bound inputs,
 * and its memory apart from that of other outputs and of weights, which the run checks.
 */
void
ortrain_io_binding_bind_output (OrtrainIoBinding *self, const char *name, OrtrainTensor *tensor)
{
  g_return_if_fail (ORTRAIN_IS_IO_BINDING (self));
  g_return_if_fail (name != NULL);
  g_return_if_fail (tensor == NULL || ORTRAIN_IS_TENSOR (tensor));

  if (tensor != NULL)
    ortrain_tensor_dict_set (self->bound, name, tensor);
  else
    ortrain_tensor_dict_remove (self->bound, name);
}

static void
clear_dict (OrtrainTensorDict *dict)
{
  while (ortrain_tensor_dict_get_size (dict) > 0)
    {
      g_autofree char *name = g_strdup (ortrain_tensor_dict_get_name (dict, ortrain_tensor_dict_get_size (dict) - 1));
      ortrain_tensor_dict_remove (dict, name);
    }
}

/**
 * ortrain_io_binding_clear_inputs:
 * @self: a binding
 *
 * Unbinds all inputs.
 */
void
ortrain_io_binding_clear_inputs (OrtrainIoBinding *self)
{
  g_return_if_fail (ORTRAIN_IS_IO_BINDING (self));

  clear_dict (self->inputs);
}

/**
 * ortrain_io_binding_clear_outputs:
 * @self: a binding
 *
 * Unbinds all outputs, and drops the results of the last run.
 */
void
ortrain_io_binding_clear_outputs (OrtrainIoBinding *self)
{
  g_return_if_fail (ORTRAIN_IS_IO_BINDING (self));

  clear_dict (self->bound);
  g_clear_object (&self->results);
  self->has_run = FALSE;
}

/**
 * ortrain_io_binding_get_inputs:
 * @self: a binding
 *
 * Gets the bound inputs.
 *
 * Returns: (transfer none): the inputs by name, owned by the binding
 */
OrtrainTensorDict *
ortrain_io_binding_get_inputs (OrtrainIoBinding *self)
{
  g_return_val_if_fail (ORTRAIN_IS_IO_BINDING (self), NULL);

  return self->inputs;
}

/**
 * ortrain_io_binding_get_outputs:
 * @self: a binding
 *
 * Gets the outputs: before a run those that are bound, after it all of them.
 *
 * Returns: (transfer none): the outputs by name, owned by the binding
 */
OrtrainTensorDict *
ortrain_io_binding_get_outputs (OrtrainIoBinding *self)
{
  g_return_val_if_fail (ORTRAIN_IS_IO_BINDING (self), NULL);

  return self->results != NULL ? self->results : self->bound;
}

/**
 * ortrain_io_binding_copy_output:
 * @self: a binding
 * @name: name of an output
 * @error: return location for a #GError
 *
 * Copies an output of the last run, so that the next one does not change it. Errors are %ORTRAIN_SESSION_ERROR_STATE
 * before the first run, %ORTRAIN_SESSION_ERROR_FEED without an output of that name, and those of [error@TensorError].
 *
 * Returns: (transfer full): a new tensor; %NULL on error
 */
OrtrainTensor *
ortrain_io_binding_copy_output (OrtrainIoBinding *self, const char *name, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_IO_BINDING (self), NULL);
  g_return_val_if_fail (name != NULL, NULL);

  if (!self->has_run)
    {
      g_set_error_literal (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_STATE,
                           "The binding has no outputs yet; call run_with_binding first");
      return NULL;
    }
  OrtrainTensor *tensor = ortrain_tensor_dict_get (ortrain_io_binding_get_outputs (self), name);
  if (tensor == NULL)
    {
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED, "The session has no output '%s'",
                   ortrain_text_show (name));
      return NULL;
    }
  return ortrain_tensor_copy (tensor, error);
}
