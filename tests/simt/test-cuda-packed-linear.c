/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fallbacks.h"
#include "ops/kernel-run.h"
#include "simt/fake-cuda.h"

/* PackedLinear and its gradients on the emulated device, with weights, biases and gradients in different places: the
 * results do not depend on the places, and the number of products does. All numbers are small and whole: results are
 * exact in all types. */

#define N_PARTS 3

typedef enum
{
  ADJACENT,
  APART, /* at even distances */
  UNEVEN,
  N_PLACES,
} Places;

typedef struct
{
  gint64 m, k, n;
} Shape;

static const Shape shapes[] = { { 5, 4, 8 }, { 17, 9, 16 }, { 3, 16, 32 }, { 1, 1, 1 }, { 33, 24, 5 } };

static const OrtrainDType dtypes[] = { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_FLOAT16,
                                       ORTRAIN_DTYPE_FLOAT64 };

/* Three tensors in one block. */
typedef struct
{
  guint8 *block;
  OrtrainTensor *tensors[N_PARTS];
} Three;

static void
three_clear (Three *self)
{
  for (guint i = 0; i < N_PARTS; i++)
    g_clear_object (&self->tensors[i]);
  g_clear_pointer (&self->block, g_free);
}

/* -1, 0, 1 */
static void
fill (OrtrainTensor *tensor, guint seed)
{
  static const guint8 bits[][3][8] = {
    [0] = { { 0, 0, 0x80, 0xbf }, { 0 }, { 0, 0, 0x80, 0x3f } },
    [1] = { { 0x80, 0xbf }, { 0 }, { 0x80, 0x3f } },
    [2] = { { 0, 0xbc }, { 0 }, { 0, 0x3c } },
    [3] = { { 0, 0, 0, 0, 0, 0, 0xf0, 0xbf }, { 0 }, { 0, 0, 0, 0, 0, 0, 0xf0, 0x3f } },
  };
  guint which = 0;
  while (dtypes[which] != ortrain_tensor_get_dtype (tensor))
    which++;
  const gsize size = ortrain_dtype_get_size (dtypes[which]);
  guint8 *data = ortrain_tensor_peek_writable (tensor);
  g_autoptr (GRand) rand = g_rand_new_with_seed (seed);
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (tensor); i++)
    memcpy (data + (gsize) i * size, bits[which][g_rand_int_range (rand, 0, 3)], size);
}

static void
three_init (Three *self, OrtrainDType dtype, const gint64 *dims, gsize rank, Places places, guint seed)
{
  g_autoptr (GError) error = NULL;
  gsize n_bytes = ortrain_dtype_get_size (dtype);
  for (gsize d = 0; d < rank; d++)
    n_bytes *= (gsize) dims[d];
  const gsize step = places == ADJACENT ? n_bytes : ((n_bytes + 63) & ~(gsize) 63) + 64;
  self->block = g_malloc0 (3 * step + 192);
  guint8 *begin = (guint8 *) (((guintptr) self->block + 63) & ~(guintptr) 63);
  for (guint i = 0; i < N_PARTS; i++)
    {
      guint8 *at = begin + i * step + (places == UNEVEN && i == 2 ? 64 : 0);
      self->tensors[i] = ortrain_tensor_new_for_address (dtype, dims, rank, (gsize) at, TRUE, NULL, &error);
      g_assert_no_error (error);
      fill (self->tensors[i], seed + i);
    }
}

static OrtrainTensor *
make (OrtrainDType dtype, const gint64 *dims, gsize rank, guint seed)
{
  g_autoptr (GError) error = NULL;
  OrtrainTensor *tensor = ortrain_tensor_new (dtype, dims, rank, &error);
  g_assert_no_error (error);
  fill (tensor, seed);
  return tensor;
}

static double
at (OrtrainTensor *x, gint64 i, gint64 j)
{
  return ortrain_tensor_get_scalar (x, i * ortrain_tensor_peek_dims (x)[1] + j);
}

static void
expect (OrtrainTensor *y, gint64 i, double want)
{
  const double found = ortrain_tensor_get_scalar (y, i);
  if (found != want)
    g_error ("element %d is %g, %g is right", (int) i, found, want);
}

typedef struct
{
  OrtrainProvider *cuda;
  Shape shape;
  OrtrainDType dtype, result;
  gboolean transposed, has_bias;
  Places places;
} Run;

static guint64
count (const char *name)
{
  return ortrain_fake_cuda_is_in_use () ? ortrain_fake_cuda_count_launches (name) : 0;
}

static void
check_count (const char *name, guint64 before, guint64 want)
{
  if (ortrain_fake_cuda_is_in_use ())
    g_assert_cmpuint (ortrain_fake_cuda_count_launches (name) - before, ==, want);
}

static void
begin (KernelRun *call, const Run *r, const char *op_type, const char *transposed)
{
  kernel_run_init (call, "org.ortrain", op_type);
  call->provider = r->cuda;
  if (r->transposed)
    ortrain_attributes_set_int (call->attributes, transposed, 1);
}

static void
run_forward (const Run *r)
{
  const Shape *s = &r->shape;
  const gint64 x_dims[] = { 1, s->m, s->k }, y_dims[] = { 1, s->m, N_PARTS * s->n };
  const gint64 w_dims[] = { r->transposed ? s->n : s->k, r->transposed ? s->k : s->n };
  Three w, bias = { NULL };
  KernelRun call;
  begin (&call, r, "PackedLinear", "transB");
  three_init (&w, r->dtype, w_dims, 2, r->places, 1);
  kernel_run_add_input (&call, make (r->dtype, x_dims, 3, 9));
  for (guint i = 0; i < N_PARTS; i++)
    kernel_run_add_input (&call, g_object_ref (w.tensors[i]));
  if (r->has_bias)
    {
      three_init (&bias, r->result, &s->n, 1, r->places, 4);
      for (guint i = 0; i < N_PARTS; i++)
        kernel_run_add_input (&call, g_object_ref (bias.tensors[i]));
    }
  kernel_run_add_output (&call, r->result, y_dims, 3);
  const guint64 before = count ("product");
  kernel_run (&call);
  check_count ("product", before, r->places == UNEVEN ? N_PARTS : 1);
  for (gint64 i = 0; i < s->m; i++)
    for (gint64 j = 0; j < N_PARTS * s->n; j++)
      {
        const gint64 part = j / s->n, column = j % s->n;
        double want = r->has_bias ? ortrain_tensor_get_scalar (bias.tensors[part], column) : 0;
        for (gint64 l = 0; l < s->k; l++)
          want += ortrain_tensor_get_scalar (call.inputs[0], i * s->k + l) *
                  at (w.tensors[part], r->transposed ? column : l, r->transposed ? l : column);
        expect (call.outputs[0], i * N_PARTS * s->n + j, want);
      }
  kernel_run_clear (&call);
  three_clear (&w);
  three_clear (&bias);
}

/* accumulates: dx is added to ones */
static void
run_input_grad (const Run *r, gboolean accumulates)
{
  const Shape *s = &r->shape;
  const gint64 dy_dims[] = { s->m, N_PARTS * s->n }, dx_dims[] = { s->m, s->k };
  const gint64 w_dims[] = { r->transposed ? s->n : s->k, r->transposed ? s->k : s->n };
  Three w;
  KernelRun call;
  begin (&call, r, "PackedLinearInputGrad", "transB");
  three_init (&w, r->dtype, w_dims, 2, r->places, 1);
  kernel_run_add_input (&call, make (r->dtype, dy_dims, 2, 9));
  for (guint i = 0; i < N_PARTS; i++)
    kernel_run_add_input (&call, g_object_ref (w.tensors[i]));
  kernel_run_add_output (&call, r->result, dx_dims, 2);
  fill (call.outputs[0], 5);
  g_autoptr (OrtrainTensor) base = make (r->result, dx_dims, 2, 5);
  call.accumulates = accumulates ? 1 : 0;
  const guint64 before = count ("product"), packed = count ("pack-weights");
  kernel_run (&call);
  check_count ("product", before, 1);
  check_count ("pack-weights", packed, r->transposed && r->places == ADJACENT ? 0 : 1);
  for (gint64 i = 0; i < s->m; i++)
    for (gint64 l = 0; l < s->k; l++)
      {
        double want = accumulates ? at (base, i, l) : 0;
        for (gint64 j = 0; j < N_PARTS * s->n; j++)
          want += at (call.inputs[0], i, j) *
                  at (w.tensors[j / s->n], r->transposed ? j % s->n : l, r->transposed ? l : j % s->n);
        expect (call.outputs[0], i * s->k + l, want);
      }
  kernel_run_clear (&call);
  three_clear (&w);
}

/* accumulates: outputs that are added to; without: the gradient of this bias is not wanted, -1 for none */
static void
run_grad (const Run *r, guint64 accumulates, gint without, guint n_products)
{
  const Shape *s = &r->shape;
  const gint64 x_dims[] = { s->m, s->k }, dy_dims[] = { s->m, N_PARTS * s->n };
  const gint64 dw_dims[] = { r->transposed ? s->n : s->k, r->transposed ? s->k : s->n };
  Three dw, db = { NULL };
  KernelRun call;
  begin (&call, r, "PackedLinearGrad", "transW");
  kernel_run_add_input (&call, make (r->dtype, x_dims, 2, 8));
  kernel_run_add_input (&call, make (r->dtype, dy_dims, 2, 9));
  three_init (&dw, r->result, dw_dims, 2, r->places, 1);
  for (guint i = 0; i < N_PARTS; i++)
    call.outputs[call.n_outputs++] = g_object_ref (dw.tensors[i]);
  if (r->has_bias)
    {
      three_init (&db, r->result, &s->n, 1, r->places, 4);
      for (guint i = 0; i < N_PARTS; i++)
        call.outputs[call.n_outputs++] = (gint) i == without ? NULL : g_object_ref (db.tensors[i]);
    }
  call.accumulates = accumulates;
  const guint64 before = count ("product"), put = count ("put-sums");
  kernel_run (&call);
  check_count ("product", before, n_products);
  check_count ("put-sums", put, r->has_bias);
  for (guint part = 0; part < N_PARTS; part++)
    {
      g_autoptr (OrtrainTensor) base = make (r->result, dw_dims, 2, 1 + part);
      g_autoptr (OrtrainTensor) bias = make (r->result, &s->n, 1, 4 + part);
      for (gint64 j = 0; j < s->n; j++)
        {
          double sum = accumulates >> (N_PARTS + part) & 1 ? ortrain_tensor_get_scalar (bias, j) : 0;
          for (gint64 i = 0; i < s->m; i++)
            sum += at (call.inputs[1], i, part * s->n + j);
          if (r->has_bias && call.outputs[N_PARTS + part] != NULL)
            expect (call.outputs[N_PARTS + part], j, sum);
          for (gint64 l = 0; l < s->k; l++)
            {
              const gint64 place = r->transposed ? j * s->k + l : l * s->n + j;
              double want = accumulates >> part & 1 ? ortrain_tensor_get_scalar (base, place) : 0;
              for (gint64 i = 0; i < s->m; i++)
                want += at (call.inputs[0], i, l) * at (call.inputs[1], i, part * s->n + j);
              expect (call.outputs[part], place, want);
            }
        }
    }
  kernel_run_clear (&call);
  three_clear (&dw);
  three_clear (&db);
}

static OrtrainProvider *
open_cuda (void)
{
  const OrtrainProviderOptions options = { .n_threads = 1 };
  g_autoptr (GError) error = NULL;
  OrtrainProvider *cuda = ortrain_provider_open ("cuda", &options, &error);
  g_assert_no_error (error);
  return cuda;
}

typedef void (*RunFunc) (const Run *run);

static void
for_all (RunFunc func)
{
  g_autoptr (OrtrainProvider) cuda = open_cuda ();
  for (guint s = 0; s < G_N_ELEMENTS (shapes); s++)
    for (guint d = 0; d < G_N_ELEMENTS (dtypes); d++)
      for (guint bits = 0; bits < 8; bits++)
        for (guint places = 0; places < N_PLACES; places++)
          {
            const gboolean wide = bits & 1 && dtypes[d] != ORTRAIN_DTYPE_FLOAT64;
            func (&(Run){ cuda, shapes[s], dtypes[d], wide ? ORTRAIN_DTYPE_FLOAT32 : dtypes[d], (bits & 2) != 0,
                          (bits & 4) != 0, places });
          }
}

static void
test_forward (void)
{
  for_all (run_forward);
}

static void
run_input_grads (const Run *run)
{
  run_input_grad (run, FALSE);
  run_input_grad (run, TRUE);
}

static void
test_input_grad (void)
{
  for_all (run_input_grads);
}

static void
run_grads (const Run *run)
{
  const guint n = run->places == UNEVEN ? N_PARTS : 1;
  run_grad (run, 0, -1, n);
  run_grad (run, run->has_bias ? 0x3f : 7, 1, n);
  run_grad (run, 2, -1, N_PARTS); /* one of them alone is added to: no batch */
}

static void
test_grad (void)
{
  for_all (run_grads);
}

/* Where the library has no batch with biases, or with sums of rows, products come one by one, or sums by a kernel. */
static void
test_refused (void)
{
  g_autoptr (OrtrainProvider) cuda = open_cuda ();
  if (!ortrain_fake_cuda_is_in_use ())
    {
      g_test_skip ("only the emulated cuBLASLt can be told to refuse");
      return;
    }
  TEST_ALLOWS_FALLBACKS ("the emulated cuBLASLt refuses batches on purpose");
  for (guint bits = 0; bits < 4; bits++)
    {
      Run run = { cuda, { 17, 16, 8 }, ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_FLOAT32, (bits & 1) != 0, (bits & 2) != 0,
                  APART };
      g_setenv ("ORTRAIN_FAKE_CUBLASLT_WITHOUT_BATCHES", "1", TRUE);
      const guint64 before = count ("product"), sums = count ("sum-rows");
      run.places = run.has_bias ? UNEVEN : APART; /* as many products as if they were uneven */
      run_forward (&run);
      run.places = APART;
      run_grad (&run, run.has_bias ? 0x3f : 7, -1, 1);
      g_unsetenv ("ORTRAIN_FAKE_CUBLASLT_WITHOUT_BATCHES");
      check_count ("product", before, run.has_bias ? N_PARTS + 1 : 2);
      check_count ("sum-rows", sums, run.has_bias);
    }
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-packed-linear/forward", test_forward);
  g_test_add_func ("/cuda-packed-linear/input-grad", test_input_grad);
  g_test_add_func ("/cuda-packed-linear/grad", test_grad);
  g_test_add_func ("/cuda-packed-linear/refused", test_refused);
  return g_test_run ();
}
