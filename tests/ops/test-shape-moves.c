/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ortrain-op-test.h"

/* Pad to ReverseSequence, the scatters, and operators that pick by value. Forward values are NumPy's or those of ONNX's
 * operator pages; gradients are checked against differences. */

static void
test_pad (void)
{
  static const char *const modes[] = { "constant", "reflect", "edge", "wrap" };
  static const double expected[4][12] = {
    { 9, 9, 1, 2, 3, 9, 9, 9, 4, 5, 6, 9 },
    { 3, 2, 1, 2, 3, 2, 6, 5, 4, 5, 6, 5 },
    { 1, 1, 1, 2, 3, 3, 4, 4, 4, 5, 6, 6 },
    { 2, 3, 1, 2, 3, 1, 5, 6, 4, 5, 6, 4 },
  };
  OpTest t;
  for (guint m = 0; m < 4; m++)
    {
      op_test_begin (&t);
      OP_IN (&t, FLOAT64, OP_DIMS (2, 3), 1, 2, 3, 4, 5, 6);
      OP_INTS (&t, 2, 1);
      OP_IN (&t, FLOAT64, OP_DIMS (), 9);
      OP_INTS (&t, -1);
      ortrain_attributes_set_string (t.attributes, "mode", modes[m]);
      OP_RUN (&t, "Pad", 1);
      op_test_expect (&t, 0, OP_DIMS (2, 6), expected[m], 1e-12);
      op_test_gradient (&t, 1, 0);
      op_test_end (&t);

      /* one border cut, the other padded, on both axes */
      op_test_begin (&t);
      OP_IN (&t, FLOAT64, OP_DIMS (2, 3), 1, 2, 3, 4, 5, 6);
      OP_INTS (&t, 1, -1, -1, 2);
      ortrain_attributes_set_string (t.attributes, "mode", modes[m]);
      OP_RUN (&t, "Pad", 1);
      op_test_gradient (&t, 1, 0);
      op_test_end (&t);
    }
  op_test_begin (&t);
  OP_IN (&t, FLOAT64, OP_DIMS (2), 1, 2);
  ortrain_attributes_set_ints (t.attributes, "pads", (gint64[]){ 1, 2 }, 2);
  ortrain_attributes_set_float (t.attributes, "value", 0.5);
  op_test_go (&t, "", "Pad", 1, 10);
  OP_OUT (&t, 0, OP_DIMS (5), 0.5, 1, 2, 0.5, 0.5);
  op_test_end (&t);
}

static void
test_tile (void)
{
  OpTest t;
  op_test_begin (&t);
  OP_IN (&t, FLOAT64, OP_DIMS (2, 2), 1, 2, 3, 4);
  OP_INTS (&t, 2, 3);
  OP_RUN (&t, "Tile", 1);
  OP_OUT (&t, 0, OP_DIMS (4, 6), 1, 2, 1, 2, 1, 2, 3, 4, 3, 4, 3, 4, 1, 2, 1, 2, 1, 2, 3, 4, 3, 4, 3, 4);
  op_test_gradient (&t, 1, 0);
  op_test_end (&t);

  op_test_begin (&t);
  OP_IN (&t, FLOAT64, OP_DIMS (2, 4), 1, 2, 3, 4, 5, 6, 7, 8);
  OP_INTS (&t, 4, 3);
  OP_RUN (&t, "CenterCropPad", 1);
  OP_OUT (&t, 0, OP_DIMS (4, 3), 0, 0, 0, 1, 2, 3, 5, 6, 7, 0, 0, 0);
  op_test_gradient (&t, 1, 0);
  op_test_end (&t);
}

static void
test_depth (void)
{
  OpTest t;
  for (guint crd = 0; crd < 2; crd++)
    {
      double x[16];
      for (guint i = 0; i < 16; i++)
        x[i] = i;
      op_test_begin (&t);
      op_test_tensor (&t, op_test_make (ORTRAIN_DTYPE_FLOAT64, OP_DIMS (1, 8, 1, 2), x));
      ortrain_attributes_set_int (t.attributes, "blocksize", 2);
      ortrain_attributes_set_string (t.attributes, "mode", crd ? "CRD" : "DCR");
      OP_RUN (&t, "DepthToSpace", 1);
      if (crd)
        OP_OUT (&t, 0, OP_DIMS (1, 2, 2, 4), 0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15);
      else
        OP_OUT (&t, 0, OP_DIMS (1, 2, 2, 4), 0, 4, 1, 5, 8, 12, 9, 13, 2, 6, 3, 7, 10, 14, 11, 15);
      op_test_gradient (&t, 1, 0);
      op_test_end (&t);
    }
  op_test_begin (&t);
  OP_IN (&t, FLOAT64, OP_DIMS (1, 1, 2, 4), 0, 6, 1, 7, 12, 18, 13, 19);
  ortrain_attributes_set_int (t.attributes, "blocksize", 2);
  OP_RUN (&t, "SpaceToDepth", 1);
  OP_OUT (&t, 0, OP_DIMS (1, 4, 1, 2), 0, 1, 6, 7, 12, 13, 18, 19);
  op_test_gradient (&t, 1, 0);
  op_test_end (&t);
}

static void
test_trilu (void)
{
  OpTest t;
  for (guint upper = 0; upper < 2; upper++)
    {
      op_test_begin (&t);
      OP_IN (&t, FLOAT64, OP_DIMS (1, 2, 3), 1, 2, 3, 4, 5, 6);
      OP_IN (&t, INT64, OP_DIMS (), 1);
      ortrain_attributes_set_int (t.attributes, "upper", upper);
      OP_RUN (&t, "Trilu", 1);
      if (upper)
        OP_OUT (&t, 0, OP_DIMS (1, 2, 3), 0, 2, 3, 0, 0, 6);
      else
        OP_OUT (&t, 0, OP_DIMS (1, 2, 3), 1, 2, 0, 4, 5, 6);
      op_test_gradient (&t, 1, 0);
      op_test_end (&t);
    }
  op_test_begin (&t);
  OP_IN (&t, FLOAT64, OP_DIMS (3, 2), 0, 1, 2, 3, 4, 5);
  OP_INTS (&t, 3, 2);
  OP_RUN (&t, "ReverseSequence", 1);
  OP_OUT (&t, 0, OP_DIMS (3, 2), 4, 3, 2, 1, 0, 5);
  op_test_gradient (&t, 1, 0);
  op_test_end (&t);
}

static void
test_scatter (void)
{
  static const char *const reductions[] = { "none", "add", "mul", "max", "min" };
  static const double elements[5][6] = {
    { 1, 7.5, 3, 4, 0.5, -2 }, { 1, 9.5, 3, 4, 5.5, 4 }, { 1, 15, 3, 4, 2.5, -12 },
    { 1, 7.5, 3, 4, 5, 6 },    { 1, 2, 3, 4, 0.5, -2 },
  };
  OpTest t;
  for (guint r = 0; r < 5; r++)
    {
      op_test_begin (&t);
      OP_IN (&t, FLOAT64, OP_DIMS (2, 3), 1, 2, 3, 4, 5, 6);
      OP_IN (&t, INT64, OP_DIMS (1, 3), -1, 0, 1);
      OP_IN (&t, FLOAT64, OP_DIMS (1, 3), 0, 7.5, -2);
      ortrain_attributes_set_int (t.attributes, "axis", 0);
      ortrain_attributes_set_string (t.attributes, "reduction", reductions[r]);
      g_autoptr (GError) error = NULL;
      op_test_node (&t, "", "ScatterElements", 1, 23, &error);
      g_assert_no_error (error);
      op_test_run (&t, &error);
      g_assert_no_error (error);
      op_test_end (&t);

      op_test_begin (&t);
      OP_IN (&t, FLOAT64, OP_DIMS (2, 3), 1, 2, 3, 4, 5, 6);
      OP_IN (&t, INT64, OP_DIMS (3, 2), 0, 1, 1, 1, -1, -1);
      OP_IN (&t, FLOAT64, OP_DIMS (3), 7.5, 0.5, -2);
      ortrain_attributes_set_string (t.attributes, "reduction", reductions[r]);
      OP_RUN (&t, "ScatterND", 1);
      op_test_expect (&t, 0, OP_DIMS (2, 3), elements[r], 1e-12);
      op_test_gradient (&t, 5, 0);
      op_test_end (&t);

      op_test_begin (&t);
      OP_IN (&t, FLOAT64, OP_DIMS (2, 3), 1, 2, 3, 4, 5, 6);
      OP_IN (&t, INT64, OP_DIMS (2, 2), 1, 0, 1, 2);
      OP_IN (&t, FLOAT64, OP_DIMS (2, 2), 7.5, 0.5, -2, 9);
      ortrain_attributes_set_int (t.attributes, "axis", 1);
      ortrain_attributes_set_string (t.attributes, "reduction", reductions[r]);
      OP_RUN (&t, "ScatterElements", 1);
      op_test_gradient (&t, 5, 0);
      op_test_end (&t);
    }
  op_test_begin (&t);
  OP_IN (&t, FLOAT32, OP_DIMS (1, 5), 1, 2, 3, 4, 5);
  OP_IN (&t, INT64, OP_DIMS (1, 2), 1, 1);
  OP_IN (&t, FLOAT32, OP_DIMS (1, 2), 1.1, 2.1);
  ortrain_attributes_set_int (t.attributes, "axis", 1);
  ortrain_attributes_set_string (t.attributes, "reduction", "add");
  OP_RUN (&t, "ScatterElements", 1);
  OP_OUT (&t, 0, OP_DIMS (1, 5), 1, 5.2, 3, 4, 5);
  op_test_end (&t);

  op_test_begin (&t);
  OP_IN (&t, FLOAT32, OP_DIMS (3), 1, 2, 3);
  OP_INTS (&t, 2);
  OP_IN (&t, FLOAT32, OP_DIMS (1), 9);
  op_test_go (&t, "", "Scatter", 1, 9);
  OP_OUT (&t, 0, OP_DIMS (3), 1, 2, 9);
  op_test_end (&t);
}

static void
test_top_k (void)
{
  OpTest t;
  for (guint largest = 0; largest < 2; largest++)
    {
      op_test_begin (&t);
      OP_IN (&t, FLOAT64, OP_DIMS (2, 4), 3, 1, 3, 2, -1, 8, 0, 4);
      OP_INTS (&t, 3);
      ortrain_attributes_set_int (t.attributes, "largest", largest);
      OP_RUN (&t, "TopK", 2);
      if (largest)
        {
          OP_OUT (&t, 0, OP_DIMS (2, 3), 3, 3, 2, 8, 4, 0);
          OP_OUT (&t, 1, OP_DIMS (2, 3), 0, 2, 3, 1, 3, 2);
        }
      else
        {
          OP_OUT (&t, 0, OP_DIMS (2, 3), 1, 2, 3, -1, 0, 4);
          OP_OUT (&t, 1, OP_DIMS (2, 3), 1, 3, 0, 0, 2, 3);
        }
      op_test_end (&t);
    }
  /* the gradient adds the missing second output */
  op_test_begin (&t);
  OP_IN (&t, FLOAT64, OP_DIMS (4, 2), 3, 1, 5, 2, -1, 8, 0, 4);
  ortrain_attributes_set_int (t.attributes, "k", 2);
  ortrain_attributes_set_int (t.attributes, "axis", 0);
  op_test_go (&t, "", "TopK", 1, 9);
  OP_OUT (&t, 0, OP_DIMS (2, 2), 5, 8, 3, 4);
  op_test_gradient (&t, 1, 0);
  op_test_end (&t);
}

static void
test_by_value (void)
{
  OpTest t;
  op_test_begin (&t);
  OP_IN (&t, FLOAT32, OP_DIMS (3), 1, -1, 7);
  OP_IN (&t, FLOAT32, OP_DIMS (), 3);
  OP_IN (&t, INT32, OP_DIMS (2), 5, 6);
  ortrain_attributes_set_int (t.attributes, "axis", 0);
  OP_RUN (&t, "OneHot", 1);
  OP_OUT (&t, 0, OP_DIMS (3, 3), 5, 5, 5, 6, 5, 5, 5, 6, 5);
  op_test_end (&t);

  op_test_begin (&t);
  OP_IN (&t, FLOAT64, OP_DIMS (2, 3), 1, 2, 3, 4, 5, 6);
  OP_IN (&t, BOOL, OP_DIMS (3), 0, 1, 1);
  ortrain_attributes_set_int (t.attributes, "axis", 1);
  OP_RUN (&t, "Compress", 1);
  OP_OUT (&t, 0, OP_DIMS (2, 2), 2, 3, 5, 6);
  op_test_gradient (&t, 1, 0);
  op_test_end (&t);

  op_test_begin (&t);
  OP_IN (&t, FLOAT64, OP_DIMS (2, 3), 1, 2, 3, 4, 5, 6);
  OP_IN (&t, BOOL, OP_DIMS (5), 0, 1, 0, 0, 1);
  OP_RUN (&t, "Compress", 1);
  OP_OUT (&t, 0, OP_DIMS (2), 2, 5);
  op_test_gradient (&t, 1, 0);
  op_test_end (&t);

  op_test_begin (&t);
  OP_IN (&t, FLOAT32, OP_DIMS (2, 2), 1, -0.0, 0, 2);
  OP_RUN (&t, "NonZero", 1);
  OP_OUT (&t, 0, OP_DIMS (2, 2), 0, 1, 0, 1);
  op_test_end (&t);

  for (guint sorted = 0; sorted < 2; sorted++)
    {
      op_test_begin (&t);
      OP_IN (&t, FLOAT32, OP_DIMS (6), 2, 1, 1, 3, 4, 3);
      ortrain_attributes_set_int (t.attributes, "sorted", sorted);
      OP_RUN (&t, "Unique", 4);
      if (sorted)
        {
          OP_OUT (&t, 0, OP_DIMS (4), 1, 2, 3, 4);
          OP_OUT (&t, 1, OP_DIMS (4), 1, 0, 3, 4);
          OP_OUT (&t, 2, OP_DIMS (6), 1, 0, 0, 2, 3, 2);
          OP_OUT (&t, 3, OP_DIMS (4), 2, 1, 2, 1);
        }
      else
        {
          OP_OUT (&t, 0, OP_DIMS (4), 2, 1, 3, 4);
          OP_OUT (&t, 1, OP_DIMS (4), 0, 1, 3, 4);
          OP_OUT (&t, 2, OP_DIMS (6), 0, 1, 1, 2, 3, 2);
          OP_OUT (&t, 3, OP_DIMS (4), 1, 2, 2, 1);
        }
      op_test_end (&t);
    }
  op_test_begin (&t);
  OP_IN (&t, FLOAT32, OP_DIMS (2, 3), 1, 0, 1, 2, 5, 2);
  ortrain_attributes_set_int (t.attributes, "axis", -1);
  OP_RUN (&t, "Unique", 1);
  OP_OUT (&t, 0, OP_DIMS (2, 2), 0, 1, 5, 2);
  op_test_end (&t);
}

/* Values are those of torch.nn.functional.interpolate. */
static void
test_resize (void)
{
  OpTest t;
  op_test_begin (&t);
  OP_IN (&t, FLOAT64, OP_DIMS (1, 1, 2, 2), 1, 2, 3, 4);
  ortrain_attributes_set_string (t.attributes, "mode", "nearest");
  ortrain_attributes_set_floats (t.attributes, "scales", (float[]){ 1, 1, 1, 2 }, 4);
  op_test_go (&t, "", "Upsample", 1, 7);
  OP_OUT (&t, 0, OP_DIMS (1, 1, 2, 4), 1, 1, 2, 2, 3, 3, 4, 4);
  t.node = t.graph->nodes->pdata[0];
  op_test_gradient (&t, 1, 0);
  op_test_end (&t);

  op_test_begin (&t);
  OP_IN (&t, FLOAT64, OP_DIMS (1, 1, 2, 2), 1, 2, 3, 4);
  OP_ABSENT (&t);
  OP_ABSENT (&t);
  OP_INTS (&t, 1, 1, 3, 4);
  ortrain_attributes_set_string (t.attributes, "mode", "linear");
  OP_RUN (&t, "Resize", 1);
  OP_OUT (&t, 0, OP_DIMS (1, 1, 3, 4), 1, 1.25, 1.75, 2, 2, 2.25, 2.75, 3, 3, 3.25, 3.75, 4);
  op_test_gradient (&t, 1, 0);
  op_test_end (&t);

  /* one element is the first one, in whatever way elements between are computed, as in ONNX's text and ONNX Runtime */
  static const char *const modes[] = { "nearest", "linear", "cubic" };
  for (guint m = 0; m < G_N_ELEMENTS (modes); m++)
    for (guint by_scale = 0; by_scale < 2; by_scale++)
      {
        op_test_begin (&t);
        OP_IN (&t, FLOAT64, OP_DIMS (2, 5), 1, 2, 3, 4, 5, -1, 7, 2, 0, 3);
        OP_ABSENT (&t);
        if (by_scale)
          OP_IN (&t, FLOAT32, OP_DIMS (2), 0.5, 0.3); /* 1.5 elements are one */
        else
          {
            OP_ABSENT (&t);
            OP_INTS (&t, 1, 1);
          }
        ortrain_attributes_set_string (t.attributes, "mode", modes[m]);
        ortrain_attributes_set_string (t.attributes, "coordinate_transformation_mode", "pytorch_half_pixel");
        OP_RUN (&t, "Resize", 1);
        OP_OUT (&t, 0, OP_DIMS (1, 1), 1);
        op_test_gradient (&t, 1, 0);
        op_test_end (&t);
      }

  static const char *const transformations[] = { "half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel",
                                                 "half_pixel_symmetric" };
  for (guint m = 0; m < 3; m++)
    for (guint c = 0; c < G_N_ELEMENTS (transformations); c++)
      for (guint antialias = 0; antialias < 2; antialias++)
        {
          double x[20];
          for (guint i = 0; i < 20; i++)
            x[i] = sin (i * 1.7);
          op_test_begin (&t);
          op_test_tensor (&t, op_test_make (ORTRAIN_DTYPE_FLOAT64, OP_DIMS (1, 4, 5), x));
          OP_ABSENT (&t);
          OP_ABSENT (&t);
          OP_INTS (&t, 2, 8);
          ortrain_attributes_set_ints (t.attributes, "axes", (gint64[]){ 1, 2 }, 2);
          ortrain_attributes_set_string (t.attributes, "mode", modes[m]);
          ortrain_attributes_set_int (t.attributes, "antialias", antialias);
          ortrain_attributes_set_string (t.attributes, "coordinate_transformation_mode", transformations[c]);
          OP_RUN (&t, "Resize", 1);
          op_test_gradient (&t, 1, 0);
          op_test_end (&t);
        }
}

/* Against sums written out here: the products with all letters, by brute force. */
static void
test_einsum (void)
{
  static const struct
  {
    const char *equation;
    guint n;
    guint ranks[3];
    gint64 dims[3][4];
    gboolean loops; /* stays an Einsum */
  } cases[] = {
    { "ij->ji", 1, { 2 }, { { 2, 3 } }, TRUE },
    { "ij->", 1, { 2 }, { { 2, 3 } }, TRUE },
    { "...ii ->...i", 1, { 3 }, { { 2, 3, 3 } }, TRUE },
    { "bhid,bhjd->bhij", 2, { 4, 4 }, { { 2, 2, 3, 4 }, { 2, 2, 2, 4 } }, FALSE },
    { "bnhd,hdm->bnm", 2, { 4, 3 }, { { 2, 3, 2, 2 }, { 2, 2, 3 } }, FALSE },
    { "bk,bkn->bn", 2, { 2, 3 }, { { 2, 3 }, { 2, 3, 2 } }, FALSE },
    { "bi,bj->bij", 2, { 2, 2 }, { { 2, 3 }, { 2, 2 } }, FALSE },
    { "i,j", 2, { 1, 1 }, { { 3 }, { 2 } }, FALSE },
    { "i,i", 2, { 1, 1 }, { { 3 }, { 3 } }, FALSE },
    { "ki,kj->ji", 2, { 2, 2 }, { { 3, 2 }, { 3, 4 } }, FALSE },
    { "...ij,...jk->...ik", 2, { 3, 2 }, { { 2, 2, 3 }, { 3, 2 } }, TRUE },
    { "ij,jk,kl->il", 3, { 2, 2, 2 }, { { 2, 3 }, { 3, 2 }, { 2, 2 } }, TRUE },
    { "abij,abjc->acib", 2, { 4, 4 }, { { 2, 2, 2, 3 }, { 2, 2, 3, 2 } }, FALSE },
  };
  for (guint c = 0; c < G_N_ELEMENTS (cases); c++)
    {
      OpTest t;
      op_test_begin (&t);
      for (guint i = 0; i < cases[c].n; i++)
        {
          double values[64];
          for (guint j = 0; j < 64; j++)
            values[j] = sin (j * 1.3 + i);
          op_test_tensor (&t, op_test_make (ORTRAIN_DTYPE_FLOAT64, cases[c].ranks[i], cases[c].dims[i], values));
        }
      ortrain_attributes_set_string (t.attributes, "equation", cases[c].equation);
      OP_RUN (&t, "Einsum", 1);
      g_assert_true (cases[c].loops == (t.graph->nodes->len == 1 &&
                                        g_str_equal (((OrtrainNode *) t.graph->nodes->pdata[0])->op_type, "Einsum")));
      OrtrainTensor *y = ((OrtrainValue *) t.graph->outputs->pdata[0])->tensor;

      /* the same through the loops, which a trailing term of one element keeps it in */
      OpTest u;
      op_test_begin (&u);
      g_autofree char *equation = NULL;
      const char *arrow = strstr (cases[c].equation, "->");
      if (arrow != NULL)
        equation = g_strdup_printf ("%.*s,Z%s", (int) (arrow - cases[c].equation), cases[c].equation, arrow);
      else
        equation = g_strdup_printf ("%s,Z->%s", cases[c].equation, g_str_equal (cases[c].equation, "i,j") ? "ij" : "");
      for (guint i = 0; i < cases[c].n; i++)
        op_test_tensor (&u, g_object_ref (t.inputs[i]->tensor));
      OP_IN (&u, FLOAT64, OP_DIMS (1), 1);
      ortrain_attributes_set_string (u.attributes, "equation", equation);
      OP_RUN (&u, "Einsum", 1);
      op_test_expect (&u, 0, (guint) ortrain_tensor_get_rank (y), ortrain_tensor_peek_dims (y), ortrain_tensor_peek (y),
                      1e-12);
      op_test_gradient (&u, (1u << cases[c].n) - 1, 0);
      op_test_end (&u);
      op_test_end (&t);
    }
}

/* Tensors without elements go through everything. */
static void
test_empty (void)
{
  static const struct
  {
    const char *op_type;
    const char *attribute;
    gint64 value;
    gint second,
        third; /* 0 none; 1 ints {0}; 2 ints {0, 1}; 3 ints {2, 0}; 4 empty data; 5 one index; 6 ints {1, 1, 1, 1} */
    guint n_outputs;
  } cases[] = {
    { "Identity", NULL, 0, 0, 0, 1 },       { "Transpose", NULL, 0, 0, 0, 1 }, { "Concat", "axis", 0, 4, 0, 1 },
    { "Split", "num_outputs", 2, 0, 0, 2 }, { "Slice", NULL, 0, 2, 2, 1 },     { "Pad", NULL, 0, 6, 0, 1 },
    { "Expand", NULL, 0, 6, 0, 1 },         { "Tile", NULL, 0, 2, 0, 1 },      { "Gather", "axis", 1, 5, 0, 1 },
    { "Flatten", NULL, 0, 0, 0, 1 },        { "Trilu", NULL, 0, 0, 0, 1 },     { "TopK", NULL, 0, 1, 0, 2 },
    { "NonZero", NULL, 0, 0, 0, 1 },        { "Unique", NULL, 0, 0, 0, 1 },
  };
  for (guint c = 0; c < G_N_ELEMENTS (cases); c++)
    {
      OpTest t;
      op_test_begin (&t);
      op_test_tensor (&t, op_test_make (ORTRAIN_DTYPE_FLOAT32, OP_DIMS (0, 3), (double[]){ 0 }));
      for (guint k = 0; k < 2; k++)
        switch (k == 0 ? cases[c].second : cases[c].third)
          {
          case 1:
            OP_INTS (&t, 0);
            break;
          case 2:
            OP_INTS (&t, 0, 1);
            break;
          case 3:
            OP_INTS (&t, 2, 0);
            break;
          case 4:
            op_test_tensor (&t, op_test_make (ORTRAIN_DTYPE_FLOAT32, OP_DIMS (0, 3), (double[]){ 0 }));
            break;
          case 5:
            OP_INTS (&t, 2);
            break;
          case 6:
            OP_INTS (&t, 1, 1, 1, 1);
            break;
          }
      if (cases[c].attribute != NULL)
        ortrain_attributes_set_int (t.attributes, cases[c].attribute, cases[c].value);
      g_autoptr (GError) error = NULL;
      if (op_test_node (&t, "", cases[c].op_type, cases[c].n_outputs, 23, &error))
        op_test_run (&t, &error);
      g_assert_no_error (error);
      op_test_end (&t);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/ops/moves/pad", test_pad);
  g_test_add_func ("/ops/moves/tile", test_tile);
  g_test_add_func ("/ops/moves/depth", test_depth);
  g_test_add_func ("/ops/moves/trilu", test_trilu);
  g_test_add_func ("/ops/moves/scatter", test_scatter);
  g_test_add_func ("/ops/moves/top-k", test_top_k);
  g_test_add_func ("/ops/moves/by-value", test_by_value);
  g_test_add_func ("/ops/moves/resize", test_resize);
  g_test_add_func ("/ops/moves/einsum", test_einsum);
  g_test_add_func ("/ops/moves/empty", test_empty);
  return g_test_run ();
}
