// SPDX-License-Identifier: LGPL-2.1-or-later
/* exported init */
// Calls during which handlers of signals are called: what a handler throws ends the call, and is thrown by it. GJS itself
// only logs what a handler throws.
const {Gio} = imports.gi;

function init(Ortrain) {
    const underWay = [];    // {session, cancellable, failed, error}, the innermost last

    function sessionOf(object) {
        return object instanceof Ortrain.Trainer ? object.get_session() : object;
    }

    function begin(object, given) {
        const call = {session: sessionOf(object), cancellable: new Gio.Cancellable(), failed: false, error: undefined, given: given ?? null, id: 0};
        if (call.given !== null)
            call.id = call.given.connect(() => call.cancellable.cancel());
        underWay.push(call);
        return call;
    }

    function end(call) {
        if (call.id !== 0)
            call.given.disconnect(call.id);
        underWay.splice(underWay.indexOf(call), 1);
        if (call.failed)
            throw call.error;
    }

    function guard(prototype) {
        for (const name of ['connect', 'connect_after']) {
            const original = prototype[name];
            prototype[name] = function (signal, handler) {
                if (typeof handler !== 'function')
                    throw new TypeError(`${name} () needs a function, not ${typeof handler}`);
                return original.call(this, signal, (object, ...args) => {
                    try {
                        return handler(object, ...args);
                    } catch (error) {
                        const session = sessionOf(object);
                        const call = underWay.slice().reverse().find(call => call.session === session);
                        if (call === undefined)
                            throw error;
                        if (!call.failed)
                            Object.assign(call, {failed: true, error});
                        call.cancellable.cancel();
                        return undefined;
                    }
                });
            };
        }
    }
    guard(Ortrain.Trainer.prototype);
    guard(Ortrain.TrainingSession.prototype);

    // Calls the method with the call's own cancellable. at: where the method takes one; -1: nowhere
    function run(call, original, object, args, at) {
        if (at >= 0) {
            while (args.length < at)
                args.push(undefined);
            args[at] = call.cancellable;
        }
        try {
            return original.apply(object, args);
        } catch (error) {
            end(call);
            throw error;
        }
    }

    function watch(prototype, name, at) {
        const original = prototype[name];
        function watched(...args) {
            const call = begin(this, at >= 0 ? args[at] : null);
            const result = run(call, original, this, args, at);
            if (!(result instanceof Promise)) {
                end(call);
                return result;
            }
            return result.finally(() => end(call));
        }
        Object.defineProperty(watched, 'name', {value: name, configurable: true});
        prototype[name] = watched;
    }
    for (const name of ['train_step', 'train_and_update', 'eval_step', 'optimizer_step', 'save_checkpoint', 'load_checkpoint'])
        watch(Ortrain.TrainingSession.prototype, name, -1);
    watch(Ortrain.Trainer.prototype, 'fit', 0);
    watch(Ortrain.Trainer.prototype, 'evaluate', 1);

    // A call that returns a promise is watched. With a callback, it is the library's own method.
    function watchAsync(prototype, name, at) {
        const original = prototype[name];
        prototype[name] = function (...args) {
            if (args.length > at + 1)
                return original.apply(this, args);
            const call = begin(this, args[at]);
            return run(call, original, this, args, at).finally(() => end(call));
        };
    }
    watchAsync(Ortrain.Trainer.prototype, 'fit_async', 0);
    watchAsync(Ortrain.Trainer.prototype, 'evaluate_async', 1);
    for (const name of ['train_step_async', 'train_and_update_async', 'eval_step_async'])
        watchAsync(Ortrain.TrainingSession.prototype, name, 1);
    watchAsync(Ortrain.TrainingSession.prototype, 'optimizer_step_async', 0);
    for (const name of ['save_checkpoint_async', 'load_checkpoint_async'])
        watchAsync(Ortrain.TrainingSession.prototype, name, 1);

    // For methods of the user that cannot return an error to the library: the innermost call throws it. Returns whether a call
    // is under way.
    return error => {
        const call = underWay[underWay.length - 1];
        if (call !== undefined && !call.failed)
            Object.assign(call, {failed: true, error});
        call?.cancellable.cancel();
        return call !== undefined;
    };
}
