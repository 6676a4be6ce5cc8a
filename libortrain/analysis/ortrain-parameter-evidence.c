/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "analysis/ortrain-parameter-evidence-private.h"

#include "analysis/ortrain-channel-map-private.h"
#include "analysis/ortrain-fixed-values-private.h"
#include "analysis/ortrain-initializer-heuristics-private.h"

#include <string.h>

/* Three kinds of evidence show whether a tensor is a parameter; the first that is certain decides.
 *
 * - Its values. Some are formulas that nothing learns: masks, sinusoids, filter banks, symmetric filters. They overrule
 *   a list and a name. A note reports it, since a program may begin to learn from such numbers.
 * - The file: the exporter's list of parameters and buffers; else its name, as a path of modules or as a number
 *   (onnx/ortrain-provenance-reader.c).
 * - Its use (ortrain-parameter-roles.c), where the file says nothing, or where the exporter has computed the tensor.
 *
 *   file says values use it is ("told": and a note reports it) parameter formula a constant, told parameter a parameter
 *   constant a constant path of module formula a constant, told path of module weight a parameter path of module other
 *   a parameter, told; the name of a statistic: a constant, told numbered formula a constant, told numbered equal a
 *   constant in a normalization, or where each item of the batch has its own numbered slot a parameter numbered shifted
 *   a parameter, told; a constant, told, where it scales and shifts a convolution: that of a batch normalization is
 *   merged into the convolution, that of a frozen one, of buffers alone, is not numbered other a constant, told
 *   numbered in a module that lacks a listed parameter any a parameter; told where no rule of uses fits literal a
 *   constant; told, if it is the operand for which an operator expects a weight nothing formula slot a constant, told
 *   nothing weight a parameter
 *
 * All else is a constant. Tensors that decide shapes, running statistics, and tensors stored inside functions are never
 * parameters: see ortrain-parameter-roles.c. */

/* Names that modules give to buffers that are used like parameters. */
static gboolean
is_buffer_name (const char *name)
{
  static const char *const leaves[] = { "running_mean", "running_var", "mean",       "std",      "var",
                                        "mask",         "window",      "inv_freq",   "freqs",    "grid",
                                        "fb",           "anchors",     "pixel_mean", "pixel_std" };
  const char *leaf = strrchr (name, '.');
  leaf = leaf != NULL ? leaf + 1 : name;
  for (guint i = 0; i < G_N_ELEMENTS (leaves); i++)
    if (g_str_equal (leaf, leaves[i]))
      return TRUE;
  return g_str_has_suffix (leaf, "_mask");
}

/* The values follow a formula. */
static const char *
explain_values (const OrtrainParameterEvidence *self, gboolean is_listed)
{
  const gboolean is_named = is_listed || self->value->provenance == ORTRAIN_PROVENANCE_MODULE ||
                            self->value->provenance == ORTRAIN_PROVENANCE_FORM;
  const gboolean is_slot = self->use == ORTRAIN_USE_SLOT && self->is_direct && !self->is_norm;
  const gboolean is_decided = self->is_by_use && (is_listed || self->value->provenance == ORTRAIN_PROVENANCE_FORM);
  if (self->noun != NULL && !(is_named && self->is_weak) && !is_decided)
    return self->noun;
  if (is_slot)
    return ortrain_fixed_values_explain (self->value->tensor, self->is_kernel);
  if (!is_listed && (self->use == ORTRAIN_USE_SHIFTED || self->use == ORTRAIN_USE_SLOT) && !self->is_norm &&
      ortrain_fixed_values_are_binary (self->value->tensor))
    return "zeros and ones";
  return NULL;
}

/* Equal numbers that exporters write, or fold: where a normalization has no scale, or a state begins. */
static gboolean
is_filled (const OrtrainParameterEvidence *self)
{
  OrtrainTensor *tensor = self->value->tensor;
  return (self->is_norm &&
          (ortrain_initializer_heuristics_are (tensor, 0) || ortrain_initializer_heuristics_are (tensor, 1))) ||
         (self->is_whole && ortrain_initializer_heuristics_are_equal (tensor));
}

/* For any kind and any use. */
static gboolean
is_formula (OrtrainTensor *tensor)
{
  gboolean is_weak;
  return ortrain_initializer_heuristics_are_equal (tensor) ||
         ortrain_initializer_heuristics_explain (tensor, TRUE, &is_weak) != NULL ||
         ortrain_fixed_values_explain (tensor, FALSE) != NULL || ortrain_fixed_values_are_binary (tensor);
}

static OrtrainParameterVerdict
verdict (gboolean is_weight, gboolean is_uncertain, const char *because)
{
  return (OrtrainParameterVerdict){ is_weight, is_uncertain, because };
}

/* Whether an operator that reads it has a gradient with respect to it: other tensors that the file calls parameters,
 * such as the scale of a quantization, stay constant. */
static gboolean
can_learn (const OrtrainValue *value)
{
  for (guint u = 0; u < value->uses.n; u++)
    {
      const OrtrainUse *use = &value->uses.items[u];
      const OrtrainOpDef *op = use->node->op;
      if (op == NULL || (op->flags & ORTRAIN_OP_CONTROL) ||
          (op->gradient != NULL && !ortrain_channels_has_bit (op->no_grad_inputs, use->index)))
        return TRUE;
    }
  return FALSE;
}

OrtrainParameterVerdict
ortrain_parameter_evidence_decide (const OrtrainParameterEvidence *self)
{
  const OrtrainProvenance provenance = self->value->provenance;
  const gboolean is_used = self->use == ORTRAIN_USE_SLOT || self->use == ORTRAIN_USE_SHIFTED;
  const gboolean is_listed = provenance == ORTRAIN_PROVENANCE_PARAMETER;
  if (provenance == ORTRAIN_PROVENANCE_CONSTANT)
    return verdict (FALSE, FALSE, "a buffer or constant of the exported program");
  if (provenance == ORTRAIN_PROVENANCE_LITERAL)
    return verdict (FALSE, self->use == ORTRAIN_USE_SLOT, is_used ? "a number of the exported program" : NULL);
  if (!is_used && !can_learn (self->value))
    return verdict (FALSE, FALSE, NULL);
  const char *formula = explain_values (self, is_listed);
  if (formula != NULL)
    return verdict (FALSE, is_listed || provenance == ORTRAIN_PROVENANCE_MODULE || self->use == ORTRAIN_USE_SLOT,
                    formula);
  /* "mean" may be the name of a module's buffer, and of a value that an operator computed. */
  if ((provenance == ORTRAIN_PROVENANCE_MODULE || provenance == ORTRAIN_PROVENANCE_MADE) &&
      is_buffer_name (self->value->name) && self->use != ORTRAIN_USE_SLOT)
    return verdict (FALSE, is_used, "named as a buffer");
  switch (provenance)
    {
    case ORTRAIN_PROVENANCE_PARAMETER:
      return verdict (TRUE, FALSE, is_used ? NULL : "a parameter of the exported program");
    case ORTRAIN_PROVENANCE_MODULE:
      return verdict (TRUE, !is_used, is_used ? NULL : "named as a parameter");
    case ORTRAIN_PROVENANCE_FORM:
      if (is_filled (self))
        return verdict (FALSE, FALSE, "written by the exporter");
      if (!is_used && !is_formula (self->value->tensor))
        return verdict (TRUE, TRUE, "computed by the exporter, in a module that lacks a parameter");
      return verdict (is_used, FALSE, NULL);
    case ORTRAIN_PROVENANCE_MADE:
      if (is_filled (self))
        return verdict (FALSE, FALSE, "written by the exporter");
      if (self->is_affine && self->use == ORTRAIN_USE_SHIFTED)
        return verdict (FALSE, TRUE, "a normalization whose statistics and weights are fixed");
      return verdict (is_used, self->use == ORTRAIN_USE_SHIFTED || (!is_used && !is_formula (self->value->tensor)),
                      NULL);
    case ORTRAIN_PROVENANCE_UNKNOWN:
    case ORTRAIN_PROVENANCE_CONSTANT:
    case ORTRAIN_PROVENANCE_LITERAL:
      break;
    }
  return verdict (is_used, FALSE, NULL);
}
