/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "provider/ortrain-kernel-cache-private.h"

/* Contents that are longer are not copied, and told apart by their address: while one graph is planned, they stay where
 * they are. */
#define MAX_CONTENT 4096

struct _OrtrainKernelCache
{
  GHashTable *kernels; /* set of OrtrainPreparedKernel */
  GHashTable *passing; /* likewise, of those with long contents */
};

OrtrainPreparedKernel *
ortrain_prepared_kernel_ref (OrtrainPreparedKernel *self)
{
  g_atomic_ref_count_inc (&self->ref_count);
  return self;
}

void
ortrain_prepared_kernel_unref (OrtrainPreparedKernel *self)
{
  if (!g_atomic_ref_count_dec (&self->ref_count))
    return;
  if (self->constants != NULL && self->constants_free != NULL)
    self->constants_free (self->constants);
  g_clear_pointer (&self->attributes, ortrain_attributes_free);
  g_clear_object (&self->body);
  g_clear_pointer (&self->contents, g_ptr_array_unref);
  g_clear_pointer (&self->provider, ortrain_provider_unref);
  g_free (self->inplace);
  g_free (self->operands);
  g_free (self->dims);
  g_free (self);
}

/* Hashes integers only: they tell nodes of the same operator and shapes apart. */
static guint
hash_attributes (const OrtrainAttributes *attributes)
{
  guint hash = 0;
  for (guint i = 0; i < ortrain_attributes_get_n (attributes); i++)
    {
      const OrtrainAttribute *attribute = ortrain_attributes_get_nth (attributes, i);
      gsize n = 0;
      const gint64 *ints = ortrain_attributes_get_ints (attributes, attribute->name, &n);
      guint own = g_str_hash (attribute->name) + (guint) ortrain_attributes_get_int (attributes, attribute->name, 0);
      for (gsize k = 0; k < n; k++)
        own = own * 31 + (guint) ints[k];
      hash += own; /* in any order */
    }
  return hash;
}

static guint
hash_kernel (gconstpointer key)
{
  const OrtrainPreparedKernel *self = key;
  guint hash = g_direct_hash (self->kernel) + 31 * g_direct_hash (self->body) + hash_attributes (self->attributes);
  for (guint i = 0; i < self->n_inputs + self->n_outputs; i++)
    {
      const OrtrainOperand *operand = &self->operands[i];
      hash = hash * 31 + (guint) operand->dtype;
      for (guint d = 0; d < operand->rank; d++)
        hash = hash * 31 + (guint) operand->dims[d];
    }
  return hash;
}

static gboolean
is_long (const OrtrainOperand *operand)
{
  return operand->constant != NULL && operand->n_bytes > MAX_CONTENT;
}

static gboolean
same_operand (const OrtrainOperand *a, const OrtrainOperand *b)
{
  return a->dtype == b->dtype && a->rank == b->rank && (a->constant == NULL) == (b->constant == NULL) &&
         (a->rank == 0 || memcmp (a->dims, b->dims, a->rank * sizeof (gint64)) == 0) &&
         (a->constant == NULL || a->n_bytes == 0 || a->constant == b->constant ||
          (!is_long (a) && memcmp (a->constant, b->constant, a->n_bytes) == 0));
}

static gboolean
equal_kernels (gconstpointer a, gconstpointer b)
{
  const OrtrainPreparedKernel *x = a, *y = b;
  if (x->kernel != y->kernel || x->provider != y->provider || x->workspace_limit != y->workspace_limit ||
      x->body != y->body || x->n_inputs != y->n_inputs || x->n_outputs != y->n_outputs)
    return FALSE;
  for (guint i = 0; i < x->n_inputs + x->n_outputs; i++)
    if (!same_operand (&x->operands[i], &y->operands[i]))
      return FALSE;
  return ortrain_attributes_equal (x->attributes, y->attributes);
}

OrtrainKernelCache *
ortrain_kernel_cache_new (void)
{
  OrtrainKernelCache *self = g_new0 (OrtrainKernelCache, 1);
  GHashTable **const tables[] = { &self->kernels, &self->passing };
  for (guint i = 0; i < G_N_ELEMENTS (tables); i++)
    *tables[i] =
        g_hash_table_new_full (hash_kernel, equal_kernels, (GDestroyNotify) ortrain_prepared_kernel_unref, NULL);
  return self;
}

void
ortrain_kernel_cache_free (OrtrainKernelCache *self)
{
  g_hash_table_unref (self->kernels);
  g_hash_table_unref (self->passing);
  g_free (self);
}

void
ortrain_kernel_cache_forget_contents (OrtrainKernelCache *self)
{
  g_hash_table_remove_all (self->passing);
}

static gboolean
is_unused (gpointer key, gpointer value, gpointer data)
{
  return g_atomic_ref_count_compare (&((OrtrainPreparedKernel *) key)->ref_count, 1);
}

void
ortrain_kernel_cache_trim (OrtrainKernelCache *self)
{
  g_hash_table_foreach_remove (self->kernels, is_unused, NULL);
}

guint
ortrain_kernel_cache_get_size (OrtrainKernelCache *self)
{
  return g_hash_table_size (self->kernels);
}

gsize
ortrain_kernel_cache_find_largest_workspace (OrtrainKernelCache *self, const OrtrainProvider *provider)
{
  GHashTable *const tables[] = { self->kernels, self->passing };
  gsize largest = 0;
  for (guint i = 0; i < G_N_ELEMENTS (tables); i++)
    {
      GHashTableIter iter;
      gpointer key;
      g_hash_table_iter_init (&iter, tables[i]);
      while (g_hash_table_iter_next (&iter, &key, NULL))
        if (((const OrtrainPreparedKernel *) key)->provider == provider)
          largest = MAX (largest, ((const OrtrainPreparedKernel *) key)->workspace_bytes);
    }
  return largest;
}

static OrtrainPreparedKernel *
copy_setup (const OrtrainKernelSetup *setup, const OrtrainKernel *kernel, OrtrainProvider *provider)
{
  OrtrainPreparedKernel *self = g_new0 (OrtrainPreparedKernel, 1);
  const guint n = setup->n_inputs + setup->n_outputs;
  g_atomic_ref_count_init (&self->ref_count);
  self->kernel = kernel;
  self->provider = ortrain_provider_ref (provider);
  self->workspace_limit = provider->workspace_limit;
  self->attributes = ortrain_attributes_copy (setup->attributes);
  g_set_object (&self->body, setup->body);
  self->n_inputs = setup->n_inputs;
  self->n_outputs = setup->n_outputs;
  self->operands = g_new (OrtrainOperand, n + 1);
  self->dims = g_new (gint64, n * ORTRAIN_MAX_RANK + 1);
  for (guint i = 0; i < n; i++)
    {
      OrtrainOperand *operand = &self->operands[i];
      gint64 *dims = self->dims + i * ORTRAIN_MAX_RANK;
      *operand = i < setup->n_inputs ? setup->inputs[i] : setup->outputs[i - setup->n_inputs];
      if (operand->rank > 0)
        memcpy (dims, operand->dims, operand->rank * sizeof (gint64));
      operand->dims = dims;
      if (operand->constant == NULL || operand->n_bytes == 0 || is_long (operand))
        continue;
      if (self->contents == NULL)
        self->contents = g_ptr_array_new_with_free_func (g_free);
      operand->constant = g_memdup2 (operand->constant, operand->n_bytes);
      g_ptr_array_add (self->contents, (gpointer) operand->constant);
    }
  return self;
}

static gboolean
prepare (OrtrainPreparedKernel *self, const OrtrainKernelSetup *given, GError **error)
{
  const guint n = self->n_inputs + self->n_outputs;
  g_autofree OrtrainKernelSetup *setup = g_memdup2 (given, sizeof *given);
  setup->op_type = self->kernel->op_type;
  setup->domain = self->kernel->domain;
  setup->attributes = self->attributes;
  setup->body = self->body;
  setup->inputs = self->operands;
  setup->outputs = self->operands + self->n_inputs;
  setup->provider = self->provider;
  if (!ortrain_kernel_prepare (self->kernel, setup, error))
    return FALSE;
  self->constants = setup->constants;
  self->constants_free = setup->constants_free;
  self->workspace_bytes = setup->workspace_bytes;
  self->inplace = g_memdup2 (setup->inplace, MAX (self->n_outputs, 1) * sizeof (guint64));
  self->can_accumulate = setup->can_accumulate;
  self->flops = setup->flops;
  self->bytes_moved = setup->bytes_moved;
  if (self->bytes_moved == 0)
    for (guint i = 0; i < n; i++)
      self->bytes_moved += (double) self->operands[i].n_bytes;
  return TRUE;
}

OrtrainPreparedKernel *
ortrain_kernel_cache_prepare (OrtrainKernelCache *self, OrtrainProvider *provider, const OrtrainKernelSetup *setup,
                              GError **error)
{
  const OrtrainKernel *kernel = ortrain_provider_find (provider, setup->domain, setup->op_type, setup->inputs,
                                                       setup->n_inputs, setup->outputs, setup->n_outputs, error);
  if (kernel == NULL)
    return NULL;
  GHashTable *table = self != NULL ? self->kernels : NULL;
  for (guint i = 0; i < setup->n_inputs && table != NULL; i++)
    if (is_long (&setup->inputs[i]))
      table = self->passing;
  if (table != NULL)
    {
      const OrtrainPreparedKernel key = {
        .kernel = kernel,
        .provider = provider,
        .workspace_limit = provider->workspace_limit,
        .attributes = (OrtrainAttributes *) setup->attributes,
        .body = setup->body,
        .operands = (OrtrainOperand *) setup->inputs,
        .n_inputs = setup->n_inputs,
        .n_outputs = setup->n_outputs,
      };
      OrtrainPreparedKernel *known = g_hash_table_lookup (table, &key);
      if (known != NULL)
        return ortrain_prepared_kernel_ref (known);
    }
  g_autoptr (OrtrainPreparedKernel) prepared = copy_setup (setup, kernel, provider);
  if (!prepare (prepared, setup, error))
    return NULL;
  if (table != NULL)
    g_hash_table_add (table, ortrain_prepared_kernel_ref (prepared));
  return g_steal_pointer (&prepared);
}
