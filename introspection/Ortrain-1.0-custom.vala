// SPDX-License-Identifier: LGPL-2.1-or-later
// `new_async` would be a constructor named like a word of the language.
namespace Ortrain {
	public class InferenceSession : GLib.Object {
		[CCode (cname = "ortrain_inference_session_new_async", finish_name = "ortrain_inference_session_new_finish", has_construct_function = false)]
		public async InferenceSession.from_model_async (Ortrain.Model model, Ortrain.SessionOptions? options, GLib.Cancellable? cancellable) throws GLib.Error;
	}

	public class TrainingSession : GLib.Object {
		[CCode (cname = "ortrain_training_session_new_async", finish_name = "ortrain_training_session_new_finish", has_construct_function = false)]
		public async TrainingSession.from_model_async (Ortrain.Model model, Ortrain.TrainingOptions options, GLib.Cancellable? cancellable) throws GLib.Error;
	}
}
