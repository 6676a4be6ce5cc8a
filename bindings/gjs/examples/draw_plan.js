#!/usr/bin/env -S gjs -m
// Draw the memory plan of a training step with cairo, from the public objects of the plan alone. Nothing is trained.
//   draw_plan.js [--batch N] [--level N] [--milliseconds] [--provider NAME] MODEL.onnx DATA.npz PICTURE.svg
// DATA.npz holds one array per input of the model, and "labels". A picture that is no .svg is a PNG. With --level 1, layers are
// computed again in the backward pass; what is, is lighter. With --milliseconds, a step is as wide as its estimated time.
import Cairo from 'cairo';
import Ortrain from 'gi://Ortrain?version=1.0';
import System from 'system';

const COLORS = {
    activation: 0x2ec27e, temporary: 0xf5c211, gradient: 0xe66100, workspace: 0xc01c28, output: 0x33c7de, input: 0x62a0ea,
    parameter: 0x3584e4, state: 0x9141ac, buffer: 0x986a44, constant: 0x77767b,
};
const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [1100, 520, 90, 190, 70, 50];

function takeOption(words, name, value) {
    const at = words.indexOf(name);
    return at >= 0 ? words.splice(at, 2)[1] : value;
}

function takeFlag(words, name) {
    const at = words.indexOf(name);
    return at >= 0 && words.splice(at, 1).length > 0;
}

function planStep(modelPath, dataPath, batch, level, provider) {
    const options = new Ortrain.TrainingOptions({
        optimizer: new Ortrain.AdamW({learning_rate: 1e-3}), memory_opt_level: level,
        immediate_updates: Ortrain.ImmediateUpdates.ON,
    });
    if (provider)
        options.provider = provider;
    options.add_loss(Ortrain.CrossEntropyLoss.new('logits', 'labels'));
    const session = Ortrain.TrainingSession.new(Ortrain.Model.new_from_file(modelPath), options);
    return session.plan(Ortrain.DataLoader.new(Ortrain.TensorDataset.new_from_npz(dataPath), batch).next());
}

function draw(cr, plan, inMilliseconds) {
    const steps = [...plan.steps], arena = Math.max(plan.arena_bytes, 1);
    const width = WIDTH - LEFT - RIGHT, height = HEIGHT - TOP - BOTTOM;
    const edges = [0];  // where each step begins; the last one is the end
    for (const step of steps)
        edges.push(edges.at(-1) + (inMilliseconds ? step.milliseconds : 1));
    const end = edges.at(-1), place = time => LEFT + time / end * width;
    const x = step => place(edges[step]), y = bytes => TOP + height * (1 - bytes / arena);
    const color = (rgb, alpha = 1) => cr.setSourceRGBA((rgb >> 16) / 255, (rgb >> 8 & 255) / 255, (rgb & 255) / 255, alpha);
    const write = (text, px, py, align = 0) => {    // align: how much of the text is left of px
        cr.moveTo(px - align * cr.textExtents(text).width, py);
        cr.showText(text);
    };
    color(0xffffff);
    cr.paint();
    cr.selectFontFace('sans-serif', Cairo.FontSlant.NORMAL, Cairo.FontWeight.NORMAL);

    cr.setFontSize(12);
    for (let bytes = 0, step = 2 ** Math.floor(Math.log2(arena / 4)); bytes <= arena; bytes += step) {
        color(0xdeddda);
        cr.rectangle(LEFT, y(bytes), width, 1);
        cr.fill();
        color(0x5e5c64);
        write(Ortrain.format_bytes(bytes), LEFT - 8, y(bytes) + 4, 1);
    }
    const decade = 10 ** Math.floor(Math.log10(end / 4)), every = decade * Math.ceil(end / decade / 10);
    for (let n = 0; n * every <= end; n++)
        write(String(Number((n * every).toPrecision(3))), place(n * every), TOP + height + 18, 0.5);
    write(inMilliseconds ? 'milliseconds, estimated' : 'step', LEFT + width / 2, TOP + height + 38, 0.5);

    const atPeak = new Map();
    for (const block of plan.blocks) {
        if (block.region !== 'arena')
            continue;
        const first = Math.max(block.first, 0), last = Math.min(block.last + 1, steps.length);
        cr.rectangle(x(first), y(block.offset + block.bytes), x(last) - x(first), block.bytes / arena * height);
        color(COLORS[block.category], block.recomputed ? 0.5 : 1);
        cr.fillPreserve();
        cr.setLineWidth(0.5);
        color(0xffffff);
        cr.stroke();
        const isLive = first <= plan.peak_step && last > plan.peak_step;
        atPeak.set(block.category, (atPeak.get(block.category) ?? 0) + (isLive ? block.bytes : 0));
    }
    color(0x1e1e1e);
    cr.setLineWidth(1.4);
    steps.forEach((step, s) => {
        cr.lineTo(x(s), y(step.live_bytes));
        cr.lineTo(x(s + 1), y(step.live_bytes));
    });
    cr.stroke();
    steps.forEach((step, s) => {
        if (s > 0 && step.phase === steps[s - 1].phase)
            return;
        color(0x5e5c64);
        cr.rectangle(x(s), TOP - 16, 1, height + 16);
        cr.fill();
        if (s === 0 || width - x(s) + LEFT > 60)
            write(step.phase, x(s) + 5, TOP - 6);
    });
    color(0xa51d2d);
    cr.rectangle((x(plan.peak_step) + x(plan.peak_step + 1)) / 2, TOP, 1, height);
    cr.fill();

    color(0x1e1e1e);
    let row = TOP + 12;
    write(`Peak at step ${plan.peak_step}, ${steps[plan.peak_step].operator}`, WIDTH - RIGHT + 14, row);
    for (const [category, bytes] of [...atPeak].sort((a, b) => b[1] - a[1])) {
        row += 22;
        color(COLORS[category]);
        cr.rectangle(WIDTH - RIGHT + 14, row - 10, 12, 12);
        cr.fill();
        color(0x1e1e1e);
        write(`${category}  ${Ortrain.format_bytes(bytes)}`, WIDTH - RIGHT + 32, row);
    }
    if (plan.n_recomputed_steps > 0)
        write('lighter: computed again', WIDTH - RIGHT + 14, row + 26);
    cr.setFontSize(17);
    write(`Memory of one step: ${Ortrain.format_bytes(plan.peak_bytes)}`, LEFT, 28);
}

const words = System.programArgs.slice();
const provider = takeOption(words, '--provider', null), level = Number(takeOption(words, '--level', 0));
const batch = Number(takeOption(words, '--batch', 8)), inMilliseconds = takeFlag(words, '--milliseconds');
const [modelPath, dataPath, picture] = words;
let plan;
try {
    plan = planStep(modelPath, dataPath, batch, level, provider);
} catch (error) {   // the device cannot be used, for one
    printerr(error.message);
    System.exit(1);
}
const isSvg = picture.endsWith('.svg');
const surface = isSvg ? new Cairo.SVGSurface(picture, WIDTH, HEIGHT) : new Cairo.ImageSurface(Cairo.Format.ARGB32, WIDTH, HEIGHT);
const cr = new Cairo.Context(surface);
draw(cr, plan, inMilliseconds);
cr.$dispose();
if (!isSvg) // that is written while it is drawn
    surface.writeToPNG(picture);
print(`${picture}: ${plan.blocks.get_n_items()} blocks, ${plan.n_steps} steps`);
