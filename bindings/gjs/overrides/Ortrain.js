// SPDX-License-Identifier: LGPL-2.1-or-later
/* exported _init */
// What makes Ortrain feel at home in GJS: promises, plain objects of tensors, typed arrays. Everything here can also be
// done without it. Big memory is not seen by the garbage collector: call release () on tensors that were large.
const {Gio, GObject} = imports.gi;
const Calls = imports.overrides._ortrain.calls;
const Derived = imports.overrides._ortrain.derived;
const Tensors = imports.overrides._ortrain.tensors;
const Values = imports.overrides._ortrain.values;

function _init() {
    const Ortrain = this;
    const toDict = Tensors.init(Ortrain, Values.toMember, Values.toInteger);
    // A dataset, or a plain object of tensors as one.
    function toDataset(value) {
        if (value === null || value === undefined || value instanceof GObject.Object)
            return value;
        return Ortrain.TensorDataset.new(toDict(value));
    }
    const checks = Values.init(Ortrain, {
        Dataset: toDataset, TensorDict: toDict,
        Tensor: value => value === null || value === undefined || value instanceof GObject.Object ? value : Ortrain.Tensor.from(value),
    });

    // The loss of each training step, as a Float64Array.
    Object.defineProperty(Ortrain.TrainingHistory.prototype, 'losses', {
        get() {
            return new Float64Array(this.get_losses().toArray().slice().buffer);
        },
        configurable: true,
    });

    // Every asynchronous pair gives a promise when it gets no callback.
    function promisify(owner, name) {
        if (name.endsWith('_async') && typeof owner[name] === 'function')
            Gio._promisify(owner, name, name.replace(/_async$/, '_finish'));
    }
    for (const name of ['train_step', 'train_and_update', 'optimizer_step', 'eval_step', 'export', 'save_checkpoint', 'load_checkpoint'])
        promisify(Ortrain.TrainingSession.prototype, `${name}_async`);
    promisify(Ortrain.TrainingSession, 'new_async');
    promisify(Ortrain.InferenceSession.prototype, 'run_async');
    promisify(Ortrain.InferenceSession, 'new_async');
    promisify(Ortrain.Trainer.prototype, 'fit_async');
    promisify(Ortrain.Trainer.prototype, 'evaluate_async');
    promisify(Ortrain.Model.prototype, 'save_async');
    promisify(Ortrain.Checkpoint.prototype, 'export_async');
    promisify(Ortrain.Model, 'new_from_file_async');
    promisify(Ortrain.Checkpoint, 'load_async');
    promisify(Ortrain.Checkpoint.prototype, 'save_async');
    Derived.init(Ortrain, toDict, Calls.init(Ortrain));

    // new Ortrain.Trainer ({session, dataset, epochs: 3}): what a function of the library needs to make a whole object comes
    // under the names of its arguments; everything else is a property.
    function constructible(name, required, make) {
        Ortrain[name].prototype._init = function (given = {}) {
            if (given === null || typeof given !== 'object' || given instanceof GObject.Object || Array.isArray(given))
                throw new TypeError(`new Ortrain.${name} () takes an object: {${required.join(', ')}, …}, not ${Values.show(given)}`);
            const values = {...given};
            for (const argument of required) {
                if (values[argument] === undefined || values[argument] === null)
                    throw new TypeError(`new Ortrain.${name} ({${required.join(', ')}, …}) lacks ${argument}`);
            }
            const self = make(values), properties = checks.toProperties(Ortrain[name], values, required);
            for (const property in properties)
                self[property] = properties[property];
            return self;
        };
    }
    function take(values, argument, fallback = null) {
        const value = values[argument];
        delete values[argument];
        return value === undefined ? fallback : value;
    }
    // A transform, or a function (item, seed) as one: it returns an object of tensors, or nothing if it changed the item.
    function toTransform(value) {
        if (value instanceof Ortrain.Transform)
            return value;
        if (typeof value !== 'function')
            throw new TypeError(`a transform is an Ortrain.Transform or a function, not ${Values.show(value)}`);
        return Ortrain.FunctionTransform.new((item, seed) => {
            const given = value(item, seed);
            if (given === null || given === undefined || given === true || given === item)
                return true;
            if (typeof given !== 'object')
                throw new TypeError(`the transform ${value.name} returned ${Values.show(given)}; an object of tensors, or nothing, is needed`);
            const result = toDict(given);
            for (const name of item.get_names().filter(name => !result.contains(name)))
                item.remove(name);
            for (const name of result.get_names())
                item.set(name, result.get(name));
            return true;
        });
    }
    function toTransforms(value) {
        const isOne = value instanceof Ortrain.Transform || typeof value === 'function';
        if (!isOne && !Array.isArray(value))
            throw new TypeError(`transforms needs an array of transforms or functions, not ${Values.show(value)}`);
        return (isOne ? [value] : value).map(toTransform);
    }
    constructible('FunctionTransform', ['function'], values => toTransform(take(values, 'function')));
    constructible('TransformedDataset', ['dataset', 'transforms'], values => Ortrain.TransformedDataset.new(
        toDataset(take(values, 'dataset')), toTransforms(take(values, 'transforms'))));
    constructible('ImageFolder', ['path'], values => Ortrain.ImageFolder.new(take(values, 'path'), take(values, 'image_name', 'image'),
        take(values, 'label_name', 'labels'), take(values, 'classes')));
    constructible('SubsetDataset', ['dataset', 'indices'],
        values => Ortrain.SubsetDataset.new(toDataset(take(values, 'dataset')), take(values, 'indices')));
    constructible('Normalize', ['mean', 'std'], values => Ortrain.Normalize.new(take(values, 'mean'), take(values, 'std')));
    constructible('Model', ['path'], values => Ortrain.Model.new_from_file(take(values, 'path')));
    constructible('TrainingSession', ['model', 'options'],
        values => Ortrain.TrainingSession.new(take(values, 'model'), take(values, 'options')));
    constructible('InferenceSession', ['model'],
        values => Ortrain.InferenceSession.new(take(values, 'model'), take(values, 'options')));
    constructible('TensorDataset', ['tensors'], values => Ortrain.TensorDataset.new(toDict(take(values, 'tensors'))));
    constructible('DataLoader', ['dataset'],
        values => Ortrain.DataLoader.new(toDataset(take(values, 'dataset')), take(values, 'batch_size', 32)));
    constructible('Trainer', ['session', 'dataset'],
        values => Ortrain.Trainer.new(take(values, 'session'), toDataset(take(values, 'dataset'))));

    checks.checkClasses();

    // What an object says of itself: its text, or its properties.
    function describe(object) {
        const said = [];
        for (const {name, flags, value_type: type} of GObject.Object.list_properties.call(object.constructor)) {
            const key = name.replace(/-/g, '_');
            let value = flags & GObject.ParamFlags.READABLE ? object[key] : null;
            const members = Ortrain[type.name.replace(/^Ortrain/, '')];
            if (typeof value === 'number' && typeof members === 'object')
                value = Object.keys(members).find(member => members[member] === value);
            else if (typeof value === 'number' && !Number.isInteger(value))
                value = Number(value.toPrecision(6));
            if (['number', 'string', 'boolean'].includes(typeof value) && value !== '')
                said.push(`${key}: ${value}`);
        }
        return `Ortrain.${object.constructor.name.replace(/^Ortrain_/, '')} {${said.join(', ')}}`;
    }
    for (const name of Object.keys(Ortrain)) {
        const prototype = typeof Ortrain[name] === 'function' ? Ortrain[name].prototype : null;
        if (!(prototype instanceof GObject.Object) && typeof prototype?.to_string !== 'function')
            continue;
        prototype.toString = function () {
            return typeof this.to_string === 'function' ? this.to_string() : describe(this);
        };
    }

    // List models are iterable. Those of graphs and plans are of a class that has no name here: it is reached through one of them.
    function* items() {
        for (let i = 0; i < this.get_n_items(); i++)
            yield this.get_item(i);
    }
    Ortrain.TensorDict.prototype[Symbol.iterator] = items;
    Object.getPrototypeOf(Ortrain.Graph.new('').get_nodes())[Symbol.iterator] = items;

    // A loader is iterable: for (const batch of loader) …
    Ortrain.DataLoader.prototype[Symbol.iterator] = function* () {
        for (let batch; (batch = this.next()) !== null;)
            yield batch;
    };
}
