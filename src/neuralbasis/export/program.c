/* An additive model as one C99 file, written by neuralbasis.

       score = intercept + one number from each term's table          prediction = inverse link of the score

   A row is an array of MODEL_COLUMNS numbers, in the order of model_columns. A missing value is NAN. For a column of
   levels, model_level converts a text (NULL is missing) and model_level_number a number.

       double x[MODEL_COLUMNS] = {31.5, model_level(1, "red")};
       double prediction = model_predict(x);

   Build as a library: cc -std=c99 -O2 -c FILE
   As a command: cc -std=c99 -O2 -DMODEL_MAIN FILE -o model -lm; ./model < rows.csv > predictions.csv */

#include <math.h>
#include <stddef.h>
#include <string.h>

struct level {
    const char *text;
    double number; /* whose text is this level; NAN if there is none */
    double index;  /* among the column's levels */
};

struct axis {
    int column, is_level;
    const double *knots; /* raw values, or indices of the levels that this axis keeps */
    long n_knots;
};

struct term {
    int order;
    const int *axes;
    const long *strides; /* distance in the table of two neighbours along each axis */
    const double *table;
};

/* MODEL */

/* The value of a level in a row: -1 for an unseen one, NAN for NULL. */
double model_level(int column, const char *text)
{
    const struct level *levels = model_levels[column];
    long low = 0, high = model_n_levels[column];
    if (text == NULL)
        return NAN;
    while (low < high) {
        long middle = low + (high - low) / 2;
        int order = strcmp(text, levels[middle].text);
        if (order == 0)
            return levels[middle].index;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return -1.0;
}

/* The same for a level that is a number: 3.0 is the level "3". */
double model_level_number(int column, double number)
{
    long level;
    if (isnan(number))
        return NAN;
    for (level = 0; level < model_n_levels[column]; level++)
        if (model_levels[column][level].number == number)
            return model_levels[column][level].index;
    return -1.0;
}

/* The cell of an axis at or below a value, and the weight of the next cell. */
static long find_cell(const struct axis *axis, double value, double *share)
{
    const double *knots = axis->knots;
    long low = 0, high = axis->n_knots - 1;
    double left, right;
    *share = 0.0;
    if (isnan(value))
        return 0;
    if (!axis->is_level && value <= knots[0])
        return 1;
    if (!axis->is_level && value >= knots[high])
        return axis->n_knots;
    while (low < high) { /* find the last knot at or below the value */
        long middle = low + (high - low + 1) / 2;
        if (knots[middle] <= value)
            low = middle;
        else
            high = middle - 1;
    }
    if (axis->is_level)
        return knots[low] == value ? low + 1 : axis->n_knots + 1;
    left = knots[low];
    right = knots[low + 1];
    if (right - left > 1e308) { /* the difference may overflow */
        value /= 2.0;
        left /= 2.0;
        right /= 2.0;
    }
    *share = (value - left) / (right - left);
    return low + 1;
}

/* Interpolate the table of a term and add the result to the totals. */
static void add_term(const struct term *term, const long *cells, const double *shares, double *totals)
{
    int corner, d, k;
    for (corner = 0; corner < 1 << term->order; corner++) {
        const double *table = term->table;
        double weight = 1.0;
        for (d = 0; d < term->order; d++) {
            double share = shares[term->axes[d]];
            int upper = corner >> d & 1;
            weight *= upper ? share : 1.0 - share;
            if (weight == 0.0)
                break; /* the cell may not exist */
            table += term->strides[d] * (cells[term->axes[d]] + upper);
        }
        for (k = 0; weight != 0.0 && k < MODEL_OUTPUTS; k++)
            totals[k] += weight * table[k];
    }
}

/* Cells and shares of a row on all axes. Returns 0, or 1 + the index of a column that holds an infinite value. */
static int find_cells(const double *x, long *cells, double *shares)
{
    int axis;
    for (axis = 0; axis < model_n_axes; axis++) {
        double value = x[model_axes[axis].column];
        if (isinf(value))
            return 1 + model_axes[axis].column;
        cells[axis] = find_cell(&model_axes[axis], value, &shares[axis]);
    }
    return 0;
}

/* MODEL_OUTPUTS scores of a row. Returns 0, or 1 + the index of a column that holds an infinite value. */
int model_scores(const double *x, double *scores)
{
    long cells[MODEL_AXES];
    double shares[MODEL_AXES];
    int term, bad = find_cells(x, cells, shares);
    memcpy(scores, model_intercept, sizeof model_intercept);
    for (term = 0; bad == 0 && term < model_n_terms; term++)
        add_term(&model_parts[term], cells, shares, scores);
    return bad;
}

/* MODEL_OUTPUTS contributions of every term, in the order of model_terms. Returns the same as model_scores. */
int model_contributions(const double *x, double *contributions)
{
    long cells[MODEL_AXES];
    double shares[MODEL_AXES];
    int term, k, bad = find_cells(x, cells, shares);
    for (k = 0; k < model_n_terms * MODEL_OUTPUTS; k++)
        contributions[k] = 0.0;
    for (term = 0; bad == 0 && term < model_n_terms; term++)
        add_term(&model_parts[term], cells, shares, contributions + term * MODEL_OUTPUTS);
    return bad;
}

#if MODEL_CLASSES > 0

/* Probabilities of the MODEL_CLASSES classes from the scores. */
void model_probabilities(const double *scores, double *probabilities)
{
    double top = MODEL_OUTPUTS == 1 ? 0.0 : scores[0], total = 0.0;
    int k;
    for (k = 0; k < MODEL_OUTPUTS; k++)
        top = scores[k] > top ? scores[k] : top;
    for (k = 0; k < MODEL_CLASSES; k++) { /* with two classes, the first has the score 0 */
        double score = MODEL_OUTPUTS > 1 ? scores[k] : k == 0 ? 0.0 : scores[0];
        probabilities[k] = exp(score - top);
        total += probabilities[k];
    }
    for (k = 0; k < MODEL_CLASSES; k++)
        probabilities[k] /= total;
}

/* The index of the most probable class in model_classes. */
int model_class(const double *scores)
{
    int k, winner = 0;
    if (MODEL_OUTPUTS == 1)
        return scores[0] > 0.0;
    for (k = 1; k < MODEL_OUTPUTS; k++)
        if (scores[k] > scores[winner])
            winner = k;
    return winner;
}

#endif

/* The predicted value of a regression, or the index of the most probable class; NAN if x holds an infinite value. */
double model_predict(const double *x)
{
    double scores[MODEL_OUTPUTS];
    if (model_scores(x, scores) != 0)
        return NAN;
#if MODEL_CLASSES > 0
    return model_class(scores);
#else
    return scores[0];
#endif
}

/* [interval */
/* Score plus a quantile for each bound, linear between the centres of the regions and constant outside. With two
   classes, the probabilities of the second class that belong to these log odds. */
static void find_bounds(double score, double *bounds)
{
    double share;
    long low = find_cell(&model_regions, score, &share), high = share > 0.0 ? low + 1 : low;
    bounds[0] = score + (1.0 - share) * quantiles_lower[low] + share * quantiles_lower[high];
    bounds[1] = score + (1.0 - share) * quantiles_upper[low] + share * quantiles_upper[high];
#if MODEL_CLASSES > 0
    {
        double both[MODEL_CLASSES];
        int k;
        for (k = 0; k < 2; k++) {
            model_probabilities(bounds + k, both);
            bounds[k] = both[1];
        }
    }
#endif
}

/* Lower and upper bound: the target lies between them with a probability of about MODEL_COVERAGE. With two classes, the
   bounds of the probability of the second class. Returns the same as model_scores. */
int model_interval(const double *x, double *bounds)
{
    double scores[MODEL_OUTPUTS];
    int bad = model_scores(x, scores);
    find_bounds(bad == 0 ? scores[0] : NAN, bounds);
    return bad;
}

/* interval] */
#ifdef MODEL_MAIN

#include <stdio.h>
#include <stdlib.h>

static char *text;
static size_t text_size;
static int is_blank; /* whether the last cell had neither characters nor quotes */

static void stop(long row, const char *what, const char *which)
{
    fprintf(stderr, "row %ld: %s %s\n", row, what, which);
    exit(1);
}

static void put(size_t at, int character)
{
    if (at >= text_size) {
        text_size = 2 * at + 256;
        text = realloc(text, text_size);
        if (text == NULL)
            stop(0, "no memory for", "a cell");
    }
    text[at] = (char)character;
}

/* Read the next cell of a CSV file into `text`. Returns its end: a comma, a line feed or EOF. */
static int read_cell(void)
{
    size_t length = 0;
    int character = getchar(), quoted = 0;
    is_blank = 1;
    for (;; character = getchar()) {
        if (character == '"' && quoted) {
            character = getchar();
            if (character != '"') {
                quoted = 0;
                ungetc(character, stdin);
                continue;
            }
        } else if (character == '"' && length == 0) {
            quoted = 1;
            is_blank = 0;
            continue;
        } else if (character == EOF || (!quoted && (character == ',' || character == '\n'))) {
            break;
        } else if (!quoted && character == '\r') {
            continue;
        }
        put(length++, character);
    }
    put(length, '\0');
    is_blank = is_blank && length == 0;
    return character;
}

static int find_column(const char *name)
{
    int column;
    for (column = 0; column < model_n_columns; column++)
        if (strcmp(name, model_columns[column]) == 0)
            return column;
    return -1;
}

/* The column of each cell of the first line, -1 for columns that the model does not use. Returns their number. */
static int read_header(int **columns)
{
    int n_cells = 0, n_found = 0, end, column;
    *columns = NULL;
    do {
        const char *name;
        end = read_cell();
        name = n_cells == 0 && strncmp(text, "\357\273\277", 3) == 0 ? text + 3 : text; /* a byte order mark */
        *columns = realloc(*columns, (size_t)(n_cells + 1) * sizeof(int));
        if (*columns == NULL)
            stop(0, "no memory for", "the columns");
        (*columns)[n_cells++] = column = find_column(name);
        n_found += column >= 0;
    } while (end == ',');
    if (n_found != model_n_columns)
        for (column = 0; column < model_n_columns; column++) {
            int cell = 0;
            while (cell < n_cells && (*columns)[cell] != column)
                cell++;
            if (cell == n_cells)
                stop(0, "there is no column", model_columns[column]);
        }
    return n_cells;
}

static double read_value(int column, long row)
{
    char *end;
    double value;
    if (text[0] == '\0')
        return NAN;
    if (model_n_levels[column] > 0)
        return model_level(column, text);
    value = strtod(text, &end);
    if (*end != '\0')
        stop(row, "expected a number in column", model_columns[column]);
    return value;
}

static void write_text(const char *written)
{
    putchar('"');
    for (; *written != '\0'; written++) {
        if (*written == '"')
            putchar('"');
        putchar(*written);
    }
    putchar('"');
}

static void write_results(const double *scores)
{
#if MODEL_CLASSES > 0
    double probabilities[MODEL_CLASSES];
    int k;
    model_probabilities(scores, probabilities);
    for (k = 0; k < MODEL_OUTPUTS; k++)
        printf("%.17g,", scores[k]);
    for (k = MODEL_OUTPUTS == 1; k < MODEL_CLASSES; k++)
        printf("%.17g,", probabilities[k]);
    write_text(model_classes[model_class(scores)]);
#else
    printf("%.17g", scores[0]);
#endif
/* [interval */
    {
        double bounds[2];
        find_bounds(scores[0], bounds);
        printf(",%.17g,%.17g", bounds[0], bounds[1]);
    }
/* interval] */
    putchar('\n');
}

static void write_names(void)
{
    int name;
    for (name = 0; name < MODEL_RESULTS; name++) {
        write_text(model_results[name]);
        putchar(name + 1 < MODEL_RESULTS ? ',' : '\n');
    }
}

int main(void)
{
    int *columns, n_cells = read_header(&columns), end = ',', bad;
    double x[MODEL_COLUMNS], scores[MODEL_OUTPUTS];
    long row;
    write_names();
    for (row = 1; end != EOF; row++) {
        int cell = 0, column;
        for (column = 0; column < MODEL_COLUMNS; column++)
            x[column] = NAN;
        do {
            end = read_cell();
            if (cell == 0 && end != ',' && is_blank)
                break; /* an empty line */
            if (cell < n_cells && columns[cell] >= 0)
                x[columns[cell]] = read_value(columns[cell], row);
            cell++;
        } while (end == ',');
        if (cell == 0)
            continue;
        bad = model_scores(x, scores);
        if (bad != 0)
            stop(row, "infinite value in column", model_columns[bad - 1]);
        write_results(scores);
    }
    free(columns);
    free(text);
    return 0;
}

#endif
