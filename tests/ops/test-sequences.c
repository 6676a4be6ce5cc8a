/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "../model/model-text.h"

/* Sequences of tensors, which are resolved when a file is read, against models that do without them. */

#define HEAD                                                                                                           \
  "in x f64 n,7\nweight w f64 7,7\nconst zero i64 = 0\nconst one i64 = 1\nconst two i64 = 2\nconst last i64 = -1\n"    \
  "const three i64 = 3\nconst axis0 i64 1 = 0\nconst axis1 i64 1 = 1\nout y\nMatMul x,w -> h\n"

static void
check (const char *text, const char *expected, gint64 n)
{
  g_autoptr (OrtrainTensorDict) feeds = model_text_feed_matrix (n, 7);
  g_autofree char *a = g_strconcat (HEAD, text, NULL), *b = g_strconcat (HEAD, expected, NULL);
  model_text_compare ((const char *const[]){ a, NULL }, (const char *const[]){ b, NULL }, 18, feeds, 1e-13);
}

/* Parts of one size, the last of which is smaller; of given sizes; single indices. */
static void
test_split (void)
{
  check ("SplitToSequence h,three -> q axis=-1\nSequenceAt q,zero -> a\nSequenceAt q,one -> b\nMul a,b -> y",
         "const s i64 3 = 3,3,1\nSplit h,s -> a,b,c axis=1\nMul a,b -> y", 4);
  check ("SplitToSequence h,three -> q axis=1\nSequenceAt q,last -> c\nSequenceAt q,one -> b\nMul b,c -> y",
         "const s i64 3 = 3,3,1\nSplit h,s -> a,b,c axis=1\nMul b,c -> y", 4);
  check ("const s i64 2 = 2,5\nSplitToSequence h,s -> q axis=1 keepdims=0\nSequenceAt q,last -> b\nSigmoid b -> y",
         "const s i64 2 = 2,5\nSplit h,s -> a,b axis=1\nSigmoid b -> y", 2);
  check ("const s i32 2 = 2,5\nSplitToSequence h,s -> q axis=1\nIdentity q -> r\nSequenceAt r,one -> b\nTanh b -> y",
         "const s i64 2 = 2,5\nSplit h,s -> a,b axis=1\nTanh b -> y", 2);
  check ("SplitToSequence h -> q axis=1\nSequenceAt q,three -> y", "Gather h,three -> s axis=1\nUnsqueeze s,axis1 -> y",
         3);
  check ("SplitToSequence h -> q axis=1 keepdims=0\nSequenceAt q,three -> y", "Gather h,three -> y axis=1", 3);
  /* an element that is an output by itself, and taken twice */
  check ("out b\nSplitToSequence h,three -> q axis=1\nSequenceAt q,one -> a\nSequenceAt q,one -> b\nMul a,b -> y",
         "out b\nconst s i64 3 = 3,3,1\nSplit h,s -> d,a,c axis=1\nIdentity a -> b\nMul a,b -> y", 4);
}

/* Along a dimension that is known when a run is planned only: sizes that are constant, or computed from its shape. */
static void
test_dynamic (void)
{
  for (gint64 n = 3; n <= 8; n++)
    {
      check ("SplitToSequence h,three -> q axis=0\nSequenceAt q,zero -> y",
             "const t i64 1 = 3\nSlice h,axis0,t,axis0 -> y", n);
      check ("SplitToSequence h,two -> q axis=0\nSequenceAt q,last -> y",
             n % 2 == 0 ? "const f i64 1 = -2\nconst e i64 1 = 100\nSlice h,f,e,axis0 -> y"
                        : "const f i64 1 = -1\nconst e i64 1 = 100\nSlice h,f,e,axis0 -> y",
             n);
      check ("SplitToSequence h -> q axis=0 keepdims=0\nSequenceAt q,last -> y", "Gather h,last -> y axis=0", n);
      check ("SplitToSequence h -> q\nSequenceAt q,two -> y", "Gather h,two -> s axis=0\nUnsqueeze s,axis0 -> y", n);
      /* two halves, as chunk (2) writes them */
      check ("Shape h -> s\nGather s,zero -> d\nAdd d,one -> e\nDiv e,two -> half\nSplitToSequence h,half -> q axis=0\n"
             "SequenceAt q,zero -> a\nSequenceAt q,one -> b\nConcat b,a -> y axis=0",
             "Split h -> a,b axis=0 num_outputs=2\nConcat b,a -> y axis=0", n);
      /* one row, and all others */
      check ("const o i64 1 = 1\nShape h -> s end=1\nSub s,o -> rest\nConcat o,rest -> sizes axis=0\n"
             "SplitToSequence h,sizes -> q axis=0\nSequenceAt q,one -> y",
             "const e i64 1 = 100\nconst f i64 1 = 1\nSlice h,f,e,axis0 -> y", n);
    }
}

/* Sequences of computed tensors, changed on their way. */
static void
test_lists (void)
{
  check ("Relu h -> a\nSin h -> b\nSequenceConstruct a,b,h -> q\nConcatFromSequence q -> y axis=1",
         "Relu h -> a\nSin h -> b\nConcat a,b,h -> y axis=1", 2);
  check ("Relu h -> a\nSin h -> b\nSequenceConstruct a,b,h -> q\nConcatFromSequence q -> y axis=-1 new_axis=1",
         "const l i64 1 = 2\nRelu h -> a\nSin h -> b\nUnsqueeze a,l -> c\nUnsqueeze b,l -> d\nUnsqueeze h,l -> e\n"
         "Concat c,d,e -> y axis=2",
         2);
  check ("Relu h -> a\nSin h -> b\nSequenceEmpty -> q0 dtype=11\nSequenceInsert q0,a -> q1\nSequenceInsert q1,b,zero "
         "-> q2\n"
         "SequenceInsert q2,h,last -> q3\nConcatFromSequence q3 -> y axis=0",
         "Relu h -> a\nSin h -> b\nConcat b,h,a -> y axis=0", 2);
  check ("Relu h -> a\nSin h -> b\nSequenceConstruct a,b,h -> q\nSequenceErase q -> r\nSequenceErase r,zero -> s\n"
         "ConcatFromSequence s -> c axis=0\nSequenceLength q -> n\nCast n -> f to=11\nMul f,c -> y",
         "const n f64 = 3\nSin h -> b\nConcat b -> c axis=0\nMul n,c -> y", 2);
  check ("SplitToSequence h,two -> q axis=1\nConcatFromSequence q -> y axis=1", "Identity h -> y", 2);
}

/* A list that a branch reads, and one that a branch makes. */
static void
test_branches (void)
{
  static const char *const then_text = "out a\nSequenceAt q,one -> a", *const else_text =
                                                                           "out b\nSequenceAt q,zero -> b";
  g_autoptr (OrtrainTensorDict) feeds = model_text_feed_matrix (3, 7);
  const char *const text =
      HEAD "Sin h -> s\nSequenceConstruct h,s -> q\nShape x -> d\nGather d,one -> e\nconst seven i64 = 7\n"
           "Equal e,seven -> c\nIf c -> y then_branch=$0 else_branch=$1";
  model_text_compare ((const char *const[]){ text, then_text, else_text, NULL },
                      (const char *const[]){ HEAD "Sin h -> y", NULL }, 18, feeds, 1e-13);
  const char *const made = HEAD "Shape x -> d\nGather d,one -> e\nconst seven i64 = 7\nEqual e,seven -> c\n"
                                "If c -> q then_branch=$0 else_branch=$1\nSequenceAt q,last -> y";
  model_text_compare ((const char *const[]){ made, "out a\nSin h -> s\nSequenceConstruct h,s -> a",
                                             "out b\nSequenceConstruct h -> b", NULL },
                      (const char *const[]){ HEAD "Sin h -> y", NULL }, 18, feeds, 1e-13);
}

static void
refuse (const char *text, const char *node, const char *reason)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *whole = g_strconcat (HEAD, text, NULL);
  g_autoptr (OrtrainModel) model = model_text_new (whole, 18, &error);
  g_assert_no_error (error);
  g_assert_null (ortrain_model_get_graph (model, &error));
  g_assert_nonnull (error);
  g_test_message ("%s", error->message);
  g_assert_cmpint (error->domain, ==, ORTRAIN_GRAPH_ERROR);
  g_assert_nonnull (strstr (error->message, node));
  g_assert_nonnull (strstr (error->message, reason));
  g_autoptr (OrtrainCheckReport) report = ortrain_model_check (model);
  g_assert_false (ortrain_check_report_get_trainable (report));
  g_autofree char *told = ortrain_check_report_to_string (report);
  g_assert_nonnull (strstr (told, reason));
}

static void
test_refused (void)
{
  refuse ("in i i64\nSplitToSequence h,two -> q axis=1\nSequenceAt q,i -> y", "node_y", "dynamo=True");
  refuse ("in s i64\nSplitToSequence h,s -> q axis=1\nConcatFromSequence q -> y axis=1", "node_y",
          "length is not constant");
  refuse ("in s i64 k\nSplitToSequence h,s -> q axis=1\nSequenceAt q,zero -> y", "node_y", "not constant");
  refuse ("SplitToSequence h,two -> q axis=1\nconst far i64 = 4\nSequenceAt q,far -> y", "node_y",
          "position 4 is out of range for a sequence of 4 tensors");
  refuse ("SplitToSequence h,two -> q axis=1\nconst far i64 = -5\nSequenceAt q,far -> y", "node_y", "position -5");
  refuse ("SplitToSequence h,zero -> q axis=1\nSequenceAt q,zero -> y", "node_q", "at least 1 is needed");
  refuse ("SplitToSequence h,two -> q axis=2\nSequenceAt q,zero -> y", "node_q", "axis 2 is out of range");
  refuse ("SequenceConstruct h,,h -> q\nConcatFromSequence q -> y axis=0", "node_q", "input 1 is missing");
  refuse ("SequenceConstruct h -> q\nSequenceInsert q -> r\nConcatFromSequence r -> y axis=0", "node_r",
          "has 1 input, it must have 2 to 3");
  refuse ("SequenceEmpty -> q\nConcatFromSequence q -> y axis=0", "node_y", "empty");
  refuse ("SequenceAt h,zero -> y", "node_y", "'h'");
  refuse ("weight many f32 100000\nSplitToSequence many -> q\nSequenceAt q,zero -> y", "node_q", "at most 4096");
  refuse ("Identity h -> y\nSequenceConstruct h,y -> q\nout q", "node_q", "sequence of tensors");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/ops/sequences/split", test_split);
  g_test_add_func ("/ops/sequences/dynamic", test_dynamic);
  g_test_add_func ("/ops/sequences/lists", test_lists);
  g_test_add_func ("/ops/sequences/branches", test_branches);
  g_test_add_func ("/ops/sequences/refused", test_refused);
  return g_test_run ();
}
